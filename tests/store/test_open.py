"""Opening: the promises read back, bad files named and never replaced, many first starts at once."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher import store
from dispatcher.errors import DispatcherError, InternalError, StoreError
from dispatcher.store import Store, queue
from dispatcher.store.database import SCHEMA_VERSION, explain
from dispatcher.task import Status
from tests.store.conftest import add, claim
from tests.store.processes import ROOT, together
from tests.store.test_schema import old_database


def pragma(db: Store, name: str) -> object:
    return db.read(f"PRAGMA {name}")[0][0]


def test_the_promises_are_read_back(db: Store) -> None:
    assert db.journal_mode == "wal"
    assert pragma(db, "journal_mode") == "wal"
    assert pragma(db, "foreign_keys") == 1
    assert pragma(db, "synchronous") == 2  # FULL
    assert int(str(pragma(db, "busy_timeout"))) >= 30_000
    assert pragma(db, "user_version") == SCHEMA_VERSION


def test_without_shared_memory_the_rollback_journal_is_used(path: Path) -> None:
    """The dot-file layer, like some network file systems, has no shared memory and refuses WAL without an error."""
    with store.open(path, vfs="unix-dotfile") as db:
        assert db.journal_mode == "delete"
        task = add(db)
        db.set_meta("tick", "5")
        assert claim(db) == queue.get(db, task.id)
        assert pragma(db, "synchronous") == 2


def test_no_handle_is_inherited(db: Store, path: Path) -> None:
    add(db)
    ours = [
        number
        for number in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{number}") and os.readlink(f"/proc/self/fd/{number}").startswith(str(path))
    ]
    assert len(ours) >= 2  # the database and its WAL
    for number in ours:
        assert fcntl.fcntl(int(number), fcntl.F_GETFD) & fcntl.FD_CLOEXEC


@pytest.mark.parametrize("name", ["with space", "per%cent", "question?mark", "hash#tag", "Ünïcödé"])
def test_any_folder_name_works(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "dispatcher.db"
    with store.open(path) as db:
        add(db)
    assert path.stat().st_size > 0


def test_a_newer_database_is_refused(path: Path) -> None:
    with store.open(path) as db:
        add(db)
        db.connection.execute("PRAGMA user_version = 77")
    with pytest.raises(
        StoreError, match=f"has schema version 77; this dispatcher knows versions up to {SCHEMA_VERSION}"
    ):
        store.open(path)


@pytest.mark.parametrize("version", [0, 1, SCHEMA_VERSION, 77])
def test_the_database_of_another_program_is_left_alone(path: Path, version: int) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bookmarks (url)")
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    with pytest.raises(StoreError, match="is a database of another program"):
        store.open(path)
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    other.close()


@pytest.mark.parametrize("garbage", [b"not a database at all\n" * 400, b"\0" * 8192, b"x"])
def test_garbage_is_moved_aside_and_no_empty_queue_takes_its_place(path: Path, garbage: bytes) -> None:
    """A hard reboot can leave a file of zeros. Beginning anew without a word would run or lose tasks."""
    path.parent.mkdir()
    path.write_bytes(garbage)
    with pytest.raises(StoreError, match="is not a SQLite database; it was moved to") as first:
        store.open(path)
    assert first.value.hint is not None
    assert "import --rebuild" in first.value.hint
    (aside,) = path.parent.glob("dispatcher.db.damaged-*")
    assert aside.read_bytes() == garbage
    with pytest.raises(StoreError, match=r"there is no database at .*damaged-"):
        store.open(path)
    with store.open(path, rebuild=True) as db:
        assert queue.counts(db) == {}
    store.open(path).close()  # rebuilt: the aside file is only a file now


def test_a_queue_that_vanished_is_not_begun_anew(path: Path) -> None:
    with store.open(path) as db:
        add(db)
    for file in path.parent.glob("dispatcher.db*"):
        if file.suffix != ".jsonl":
            file.unlink()
    with pytest.raises(StoreError, match=r"there is no database at .*, but dispatcher\.db\.journal\.jsonl"):
        store.open(path)


@pytest.mark.parametrize("empty", [False, True], ids=["missing", "zero bytes"])
@pytest.mark.parametrize("trace", ["dispatcher.db.journal.jsonl", "3/1/attempt.json"])
def test_traces_of_a_queue_are_never_taken_for_a_first_start(tmp_path: Path, trace: str, empty: bool) -> None:
    path = tmp_path / "logs" / "dispatcher.db"
    left = path.parent / trace
    left.parent.mkdir(parents=True)
    left.write_text("{}\n")
    if empty:
        path.touch()
    with pytest.raises(StoreError, match=f"{trace.partition('/')[0]} of an earlier one") as caught:
        store.open(path)
    assert ("is empty" in caught.value.message) == empty
    assert path.exists() == empty
    store.open(path, rebuild=True).close()
    store.open(path).close()


def test_an_empty_file_alone_is_a_first_start(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    (path.parent / "7").mkdir()
    (path.parent / "8").touch()
    store.open(path).close()


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("")
    with pytest.raises(StoreError, match="cannot be used for the database"):
        store.open(tmp_path / "logs" / "dispatcher.db")


def test_a_database_path_that_is_a_folder(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="it cannot be opened"):
        store.open(path)


def test_a_full_disk_says_so_and_loses_nothing(db: Store) -> None:
    task = add(db)
    pages = int(str(pragma(db, "page_count")))
    db.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="the disk is full"):
        queue.update(db, task.id, 5.0, final_text="x" * 200_000)
    assert not db.connection.in_transaction
    assert queue.get(db, task.id).final_text is None
    db.connection.execute("PRAGMA max_page_count = 1000000")
    assert queue.update(db, task.id, 6.0, final_text="done").final_text == "done"


def test_an_error_of_our_own_is_not_blamed_on_the_disk(db: Store) -> None:
    with pytest.raises(InternalError, match="no such table"):
        db.read("SELECT * FROM nowhere")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_PROTOCOL, "does not lock files properly"),
        (sqlite3.SQLITE_IOERR_WRITE, "the disk reports an error"),
        (sqlite3.SQLITE_CORRUPT, "it is damaged"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "it cannot be written"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "keeps it locked"),
    ],
)
def test_errors_in_words(code: int, words: str) -> None:
    error = sqlite3.OperationalError("sqlite's own words")
    error.sqlite_errorcode = code
    explained: DispatcherError = explain(error, "/home/logs/dispatcher.db")
    assert isinstance(explained, StoreError)
    assert words in explained.message
    assert "/home/logs/dispatcher.db" in explained.message
    assert explained.hint


def test_read_only(path: Path) -> None:
    store.open(path).close()
    with store.open(path, read_only=True) as db:
        assert db.read("SELECT * FROM v_tasks") == []
        with pytest.raises(StoreError, match="cannot be written"):
            add(db)


def test_what_cannot_be_written_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the answer of the system is played here."""
    with store.open(path) as db:
        add(db)
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with store.open(path, read_only=True) as beside:  # a writer is at work: its log is read, too
            assert len(queue.tasks(beside)) == 1
    with store.open(path, read_only=True) as db:
        assert len(queue.tasks(db)) == 1
        with pytest.raises(StoreError, match="cannot be written"):
            add(db)
    sqlite3.connect(path).execute("PRAGMA user_version = 4").connection.close()
    with pytest.raises(StoreError, match=r"schema version 4.*nothing can be written"):
        store.open(path, read_only=True)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is empty, and nothing can be written"):
        store.open(path, read_only=True)
    path.unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        store.open(path, read_only=True)


def test_a_reader_that_stays_open_never_blocks_a_writer(db: Store, path: Path) -> None:
    """A pager over `log`: a snapshot held by another connection. Writes go on, and the reader still sees its own."""
    add(db)
    reader = sqlite3.connect(path, timeout=0)
    cursor = reader.execute("BEGIN").execute("SELECT id FROM task")
    assert cursor.fetchone() == (1,)
    db.connection.execute("PRAGMA busy_timeout = 0")
    add(db, "second")
    assert claim(db) is not None
    assert reader.execute("SELECT count(*) FROM task").fetchone() == (1,)
    reader.close()


def test_an_exception_undoes_the_whole_transaction(db: Store, path: Path) -> None:
    def fail() -> None:
        with db.write():
            add(db, "inside")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert queue.counts(db) == {}
    assert not Path(f"{path}.journal.jsonl").exists()


def test_a_write_in_a_write_is_one_commit(db: Store) -> None:
    with db.write():
        add(db)
        taken = claim(db)
        assert db.connection.in_transaction
    assert taken is not None
    assert not db.connection.in_transaction


_FIRST = """
from dispatcher import store
from dispatcher.store import queue
from dispatcher.task import Difficulty
with store.open(sys.argv[1]) as db:
    title = "by " + sys.argv[2]
    queue.add(db, queue.NewTask(title, title, Difficulty.EASY, ""), 1.0)
"""


@pytest.mark.parametrize("old", [False, True], ids=["new", "old schema"])
def test_ten_first_starts_at_once(path: Path, old: bool) -> None:
    """codex 0.30: three starts at once ended in "duplicate column name", reported as a damaged database."""
    if old:
        old_database(path)
    together(_FIRST, [(str(path), str(number)) for number in range(10)])
    with store.open(path) as db:
        assert len(queue.tasks(db, status=Status.QUEUED)) == 10 + old
        assert pragma(db, "integrity_check") == "ok"
        assert pragma(db, "journal_mode") == "wal"


def test_opening_and_the_hot_path_import_no_library(path: Path) -> None:
    store.open(path).close()
    script = """
import sys
import dispatcher.task
before = set(sys.modules)
from dispatcher import store
from dispatcher.store import history, holds, journal, locks, queue
from dispatcher.task import Difficulty
with store.open(sys.argv[1]) as db:
    queue.add(db, queue.NewTask("t", "t", Difficulty.EASY, ""), 1.0)
    queue.claim(db, owner="o", now=2.0, jobs=1)
    queue.counts(db), holds.active(db, 3.0), history.attempts(db, 1), queue.next_wake(db), history.open_attempts(db)
    queue.update(db, 1, 4.0, status="queued", event="back")
loaded = set(sys.modules) - before
print(*sorted({name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names)))
print(*sorted(loaded))
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    foreign, everything = run.stdout.splitlines()
    assert foreign == "dispatcher"
    slow = {
        "asyncio",
        "urllib.parse",
        "pathlib",
        "typing",
        "subprocess",
        "socket",
        "logging",
        "dispatcher.store.schema",
    }
    assert not slow & set(everything.split())


def test_meta_facts(db: Store) -> None:
    assert db.get_meta("last_tick") is None
    db.set_meta("last_tick", "5")
    db.set_meta("last_tick", "6")
    assert db.get_meta("last_tick") == "6"
