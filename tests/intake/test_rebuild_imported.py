"""What was imported is in the journal too: no attempt folder tells of it when the database is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatcher import store
from dispatcher.config import database
from dispatcher.errors import StoreError
from dispatcher.intake import rebuild
from dispatcher.store import approvals, history, holds, queue, reviews, transfer
from dispatcher.store.database import Store
from dispatcher.task import HoldScope, Status
from tests.benchmarks import make_log
from tests.cli.conftest import Said, home, run
from tests.cli.story import Story
from tests.intake.test_gnu_parallel import HEAD

__all__ = ["home", "run"]  # fixtures

TOLD_ANEW = "the database was rebuilt"


def garbage(file: Path) -> None:
    """What a bad disk makes of a database: whoever opens it next sets it aside."""
    for name in ("-wal", "-shm"):
        Path(f"{file}{name}").unlink(missing_ok=True)
    file.write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreError, match="it was moved to"):
        store.open(file)


def log_of(db: Store) -> list[str]:
    """An export without the event that only a rebuild writes, and without the number that it used."""
    lines = [line for line in transfer.export_lines(db) if TOLD_ANEW not in line]
    return [line for line in lines if '"sequence":"event"' not in line]


def lose_and_rebuild(home: Path) -> tuple[list[str], list[str]]:
    """The log before and after; nothing in the journal was of no use."""
    file = database(home)
    with store.open(file) as db:
        before = log_of(db)
    garbage(file)
    assert rebuild.rebuild(file, 9e9).notes == ()
    with store.open(file) as db:
        return before, log_of(db)


@pytest.fixture
def elsewhere(tmp_path: Path) -> list[str]:
    """The export of a home with something in every table, of text that is no text, and of a number used up."""
    story = Story(tmp_path / "elsewhere")
    task = story.task("First", batch="night")
    story.task("Second", after=(task.id,))
    story.begin(task, final_text="All done.")
    [attempt] = history.open_attempts(story.store)
    asked = {"at": 1.0, "digest": "d", "tool": "bash", "input": {"command": "ls"}, "folder": "/r", "rule": "ls"}
    call = approvals.ask(story.store, attempt, asked, None)
    assert call is not None
    approvals.answer(story.store, call.id, 2.0, approve=True, by="me", where="here", grant=("task", "1", "d"))
    story.end(task, Status.NEEDS_REVIEW, "complete")
    reviews.decide(story.store, queue.get(story.store, task.id), 9.0, Status.ACCEPTED, by="me", text="fine")
    for key in ("small", "large"):
        holds.add(story.store, HoldScope.CANDIDATE, key, None, "why", "me", 7.0)
    story.store.set_meta("last_run", "1 cron")
    story.store.connection.execute("DELETE FROM hold WHERE id = 2")
    story.store.connection.execute("UPDATE task SET notes = CAST(x'c328eda080ff' AS TEXT) WHERE id = 1")
    log = list(transfer.export_lines(story.store))
    story.store.close()
    assert {name for name in transfer.TABLES if f'{{"table":"{name}"' not in "".join(log)} == set()
    return log


def import_into(home: Path, log: list[str]) -> None:
    with store.open(database(home)) as db:
        transfer.import_lines(db, log, file="log.jsonl")


def test_an_imported_log_comes_back_as_it_was(home: Path, elsewhere: list[str]) -> None:
    import_into(home, elsewhere)
    before, after = lose_and_rebuild(home)
    assert before == [line for line in elsewhere if '"sequence":"event"' not in line]
    assert after == before
    with store.open(database(home)) as db:
        assert holds.add(db, HoldScope.CANDIDATE, "x", None, "r", "me", 1.0).id == 3, "numbers are never used twice"
    assert lose_and_rebuild(home)[1] != after, "and the home lives on: the new hold is there"


def test_what_happened_after_the_import_comes_back_on_top_of_it(home: Path, elsewhere: list[str]) -> None:
    import_into(home, elsewhere)
    story = Story(home)
    queue.add_note(story.store, 2, 5.0, "a note", "me")
    story.task("Third", after=(2,))
    holds.lift(story.store, 1, "me", 8.0)
    story.rest(story.claim(queue.get(story.store, 2)), Status.NEEDS_REVIEW, "complete")
    story.store.close()
    file = database(home)
    garbage(file)
    assert rebuild.rebuild(file, 9e9).notes == ()
    with store.open(file) as db:
        rows = db.read("SELECT id, title, status, notes FROM task WHERE id > 1")
        assert [tuple(row) for row in rows] == [(2, "Second", "needs_review", "a note"), (3, "Third", "queued", "")]
        assert holds.active(db, 10.0) == []
        assert queue.blockers(db, 3) == []


def test_an_imported_log_that_came_after_another_queue_gets_numbers_of_its_own(
    home: Path, elsewhere: list[str]
) -> None:
    """The database was lost and nobody noticed; the import went into a new one, beside the same journal."""
    file = database(home)
    journal = Path(f"{file}.journal.jsonl")
    story = Story(home)
    story.task("Mine")
    story.store.close()
    file.unlink()
    told = journal.read_bytes()
    journal.unlink()
    import_into(home, elsewhere)
    journal.write_bytes(told + journal.read_bytes() * 2)  # and lines that are there twice say nothing new
    garbage(file)
    assert [line for line in rebuild.rebuild(file, 9e9).notes if "two tasks" not in line] == []
    with store.open(file) as db:
        rows = db.read("SELECT id, title FROM task ORDER BY id")
        assert [tuple(row) for row in rows] == [(1, "Mine"), (2, "First"), (3, "Second")]
        assert [tuple(row) for row in db.read("SELECT task_id, needs_task_id FROM dependency")] == [(3, 2)]
        assert [row["task_id"] for row in db.read("SELECT task_id FROM attempt")] == [2]
        assert [row["task_id"] for row in db.read("SELECT task_id FROM review")] == [2]


def test_a_joblog_comes_back_and_is_known_again(home: Path, tmp_path: Path, run: Callable[..., Said]) -> None:
    jobs = [f"{number}\t:\t17{number:08}.5\t1.5\t0\t0\t{number % 2}\t0\techo {number}\n" for number in range(1, 41)]
    file = tmp_path / "jobs.log"
    file.write_text(HEAD + "".join(jobs))
    assert run("import", "--from", "joblog", str(file)).code == 0
    before = run("log", "--json", "-n", "0").out
    garbage(database(home))
    assert "40 tasks and 40 attempts are back" in run("import", "--rebuild").err
    assert run("log", "--json", "-n", "0").out == before
    assert "40 were in the log already" in run("import", "--from", "joblog", str(file)).err


def test_nothing_is_told_of_an_import_that_failed(home: Path, elsewhere: list[str]) -> None:
    with pytest.raises(Exception, match="this is no JSON"):
        import_into(home, [*elsewhere, "{"])
    assert not Path(f"{database(home)}.journal.jsonl").exists()


def test_the_journal_of_an_import_is_about_as_long_as_the_export(home: Path, tmp_path: Path) -> None:
    """It goes there in blocks of whole lines, of which memory never holds more than one."""
    with store.open(tmp_path / "elsewhere.db") as there:
        make_log.fill(there, 600)
        log = list(transfer.export_lines(there))
    import_into(home, log)
    lines = Path(f"{database(home)}.journal.jsonl").read_bytes().splitlines()
    assert len(lines) == len(log) - 1
    assert all(json.loads(line)["kind"] in ("row", "sequence") for line in lines)
    assert sum(map(len, lines)) < 1.2 * sum(map(len, log))
    before, after = lose_and_rebuild(home)
    assert before == after
