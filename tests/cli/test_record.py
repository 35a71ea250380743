"""`log`, `report`, `show`, `export`, `import`, `watch` on a log that was made for it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatcher import store
from dispatcher.store import lookup
from dispatcher.task import HoldScope, OutcomeClass, Status
from tests.benchmarks import make_log
from tests.cli.conftest import Said
from tests.cli.story import Story
from tests.cli.test_render import on_terminal

Run = Callable[..., Said]


@pytest.fixture
def filled(home: Path) -> Path:
    with store.open(home / "logs" / "dispatcher.db") as db:
        make_log.fill(db, 120)
    return home


def rows(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    found: list[dict[str, Any]] = json.loads(said.out)
    return found


# --- log ---


def test_filters_combine(filled: Path, run: Run) -> None:
    every = rows(run("log", "-n", "0", "--json"))
    some = rows(run("log", "-n", "0", "--json", "--candidate", "opus,sonnet", "--outcome", "failed"))
    wanted = [row for row in every if row["candidate"] in ("opus", "sonnet") and row["outcome"] != "completed"]
    assert some == wanted
    assert some
    assert len(every) > 100


def test_each_form_has_the_same_rows(filled: Path, run: Run) -> None:
    as_json = rows(run("log", "--json"))
    lines = run("log", "--jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == as_json
    table = list(csv.DictReader(io.StringIO(run("log", "--csv").out)))
    assert list(table[0]) == list(lookup.COLUMNS)
    assert [row["title"] for row in table] == [row["title"] for row in as_json]
    plain = run("log").out.splitlines()
    assert len(plain) == 21


def test_columns_sort_and_limit(filled: Path, run: Run) -> None:
    said = run("log", "--columns", "seconds,task", "--sort", "~seconds", "-n", "3", "--csv")
    lines = said.out.splitlines()
    assert lines[0] == "seconds,task"
    found = [float(line.split(",")[0]) for line in lines[1:]]
    assert found == sorted(found, reverse=True)
    assert len(found) == 3
    longest = max(row["seconds"] for row in rows(run("log", "-n", "0", "--json")))
    assert found[0] == longest


def test_time_text_and_sql(filled: Path, run: Run) -> None:
    every = rows(run("log", "-n", "0", "--json"))
    day = rows(run("log", "-n", "0", "--json", "--since", "2026-01-01", "--until", "2026-02"))
    assert 0 < len(day) < len(every)
    assert rows(run("log", "--json", "--text", "nosuchword")) == []
    assert {row["task"] for row in rows(run("log", "--json", "--where", "task_id = 7"))} == {7}
    assert run("log", "--text", "nosuchword").out == "no attempt fits these filters\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--outcome", "killd"], "hint: did you mean killed?"),
        (["--status", "done"], "hint: one of queued"),
        (["--since", "someday"], "error: 'someday' is no time"),
        (["--where", "1; DROP TABLE task"], "error: --where cannot be used"),
        (["--columns", "tsk"], "hint: did you mean task?"),
        (["nothing"], "error: log knows no 'nothing'"),
        (["backup"], "error: log backup needs the name of a file"),
    ],
)
def test_mistakes_are_explained(filled: Path, run: Run, words: list[str], said: str) -> None:
    found = run("log", *words)
    assert found.code == 2
    assert said in found.err
    assert found.out == ""


def test_the_database_itself(filled: Path, run: Run, tmp_path: Path) -> None:
    path = run("log", "path").out.strip()
    assert path == str(filled / "logs" / "dispatcher.db")
    copy = tmp_path / "copy.db"
    assert run("log", "backup", str(copy)).code == 0
    with sqlite3.connect(copy) as opened, sqlite3.connect(path) as original:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        count = "SELECT count(*) FROM attempt"
        assert opened.execute(count).fetchone() == original.execute(count).fetchone()
    opened.close()
    original.close()
    again = run("log", "backup", str(copy))
    assert (again.code, "exists already" in again.err) == (2, True)
    missing = run("log", "backup", str(tmp_path / "no" / "copy.db"))
    assert (missing.code, "cannot be written" in missing.err) == (2, True)


def test_the_metadata_describes_every_column_and_its_queries_run(filled: Path, run: Run) -> None:
    found = json.loads(run("log", "metadata").out)["databases"]["dispatcher"]
    assert found["tables"]["attempt"]["columns"]["verdict"]
    assert found["tables"]["v_attempts"]["columns"]["candidate"]
    assert found["tables"]["task_search"]["hidden"]
    with store.open(filled / "logs" / "dispatcher.db") as db:
        for query in found["queries"].values():
            db.read(query["sql"].replace("unixepoch()", "1"))  # SQLite 3.38 and later have it


# --- report ---


def test_report_in_every_form(filled: Path, run: Run, tmp_path: Path) -> None:
    plain = run("report")
    assert "By candidate" in plain.out
    found = json.loads(run("report", "--json").out)
    assert sum(row["attempts"] for row in found["tables"]["main"]) == len(rows(run("log", "-n", "0", "--json")))
    table = list(csv.DictReader(io.StringIO(run("report", "--csv", "--table", "credentials").out)))
    assert {row["credential"] for row in table} == {row["credential"] for row in found["tables"]["credentials"]}
    assert run("report", "--markdown").out.startswith("# Report of dispatcher")
    page = tmp_path / "report.html"
    assert run("report", "--html", str(page)).code == 0
    assert "<!DOCTYPE html>" in page.read_text(encoding="utf-8")


def test_a_report_fits_a_terminal_of_80_columns(filled: Path) -> None:
    """Fewer columns instead of tables on their side; what a table is about stays, and all outcomes do."""
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}
    text = on_terminal([sys.executable, "-m", "dispatcher.cli", "report"], environment)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).split("\r\n")
    assert max(map(len, lines)) <= 80
    heads = [line for line in lines if line.startswith(("candidate ", "credential ", "difficulty ", "month "))]
    assert len(heads) >= 4
    main = next(line for line in heads if "attempts" in line)
    assert "delivered" in main
    assert "nearly lost" not in main
    assert (
        "nearly lost"
        in subprocess.run(
            [sys.executable, "-m", "dispatcher.cli", "report"], capture_output=True, text=True, check=True
        ).stdout
    )


def test_report_by_other_groups_and_periods(filled: Path, run: Run) -> None:
    total = len(rows(run("log", "-n", "0", "--json")))
    for by in ("model", "harness", "billing", "difficulty", "repository", "source"):
        found = json.loads(run("report", "--json", "--by", by).out)
        assert sum(row["attempts"] for row in found["tables"]["main"]) == total, by
    narrow = json.loads(
        run("report", "--json", "--since", "2026-01-10", "--until", "2026-01-20", "--harness", "claude").out
    )
    same = rows(
        run("log", "-n", "0", "--json", "--since", "2026-01-10", "--until", "2026-01-20", "--harness", "claude")
    )
    assert sum(row["attempts"] for row in narrow["tables"]["main"]) == len(same)
    assert narrow["unit"] == "day"


@pytest.mark.parametrize(
    "words", [["--by", "title"], ["--table", "x", "--csv"], ["--unit", "year"], ["--html", "/no/such/folder/x.html"]]
)
def test_report_explains_mistakes(filled: Path, run: Run, words: list[str]) -> None:
    said = run("report", *words)
    assert said.code == 2
    assert "hint: " in said.err


# --- show ---


def test_show_prints_the_files_of_an_attempt_safely(home: Path, run: Run) -> None:
    with Story(home).store:
        pass
    story = Story(home)
    task = story.task()
    folder = story.begin(task)
    (folder / "stdout").write_bytes(b"one \x1b[2J\xff two\nthree")
    (folder / "prompt.md").write_text("Do it.\n", encoding="utf-8")
    story.end(task, Status.NEEDS_REVIEW, "complete")
    story.store.close()
    assert run("show", "1", "--stdout").out == "one \\e[2J\ufffd two\nthree\n"
    assert run("show", "1", "--attempt", "1", "--prompt").out == "Do it.\n"
    assert run("show", "1", "--attempt", "1").out.startswith("task 1: Fix it")
    for words in (["1", "--attempt", "2", "--stdout"], ["1", "--attempt", "9"], ["7", "--stdout"]):
        assert run("show", *words).code == 2
    (folder / "stdout").unlink()
    assert "cannot be read" in run("show", "1", "--stdout").err


def test_show_json_has_who_and_what(home: Path, run: Run) -> None:
    story = Story(home)
    task = story.task()
    story.begin(task, harness_version="1.18", host="laptop", session_id="ses_1")
    story.end(task, Status.NEEDS_REVIEW, "complete")
    story.store.close()
    found = json.loads(run("show", "1", "--json").out)
    attempt = found["attempts"][0]
    assert (attempt["harness_version"], attempt["host"], attempt["session_id"]) == ("1.18", "laptop", "ses_1")
    assert found["reviews"] == []
    assert found["approvals"] == []


# --- export and import ---


def test_a_log_moves_to_another_home(filled: Path, run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert run("export", str(first)).code == 0
    other = tmp_path / "other"
    other.mkdir()
    assert run("import", str(first), "--home", str(other)).code == 0
    assert run("export", str(second), "--home", str(other)).code == 0
    assert first.read_bytes() == second.read_bytes()
    assert run("export").out == first.read_text(encoding="ascii")
    again = run("import", str(first), "--home", str(other))
    assert (again.code, "not empty" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "ftp"], "--from knows no 'ftp'"),
        ([], "needs a file"),
        (["nowhere.jsonl"], "cannot be read"),
        (["--from", "opencode", "nowhere.db"], "there is no store of opencode"),
        (["--from", "claude", "nowhere"], "there is no store of claude"),
        (["--from", "joblog", "--credential", "x", "nowhere"], "no credential 'x'"),
    ],
)
def test_import_explains_mistakes(home: Path, run: Run, words: list[str], said: str) -> None:
    found = run("import", *words)
    assert found.code == 2
    assert said in found.err


# --- watch ---


def test_watch_once_shows_what_matters(home: Path, run: Run) -> None:
    story = Story(home)
    story.begin(story.task("Runs now"))
    story.task("Waits in line")
    person = story.task("Is stuck")
    story.claim(person)
    story.rest(person, Status.NEEDS_HUMAN, "a person must look")
    from dispatcher.store import holds

    holds.add(story.store, HoldScope.CANDIDATE, "large", None, "no money", "me", 1.0)
    story.store.close()
    said = run("watch", "--once")
    assert said.code == 0
    for words in ("1 of 2 slots", "Runs now", "Waits in line", "Is stuck", "a person must look", "large", "load"):
        assert words in said.out


def test_the_screen_never_outgrows_the_terminal(home: Path) -> None:
    """Hundreds of queued tasks with long titles on a small terminal."""
    from rich.console import Console

    from dispatcher.cli import watch

    story = Story(home)
    for number in range(40):
        story.task(f"{number} " + "long " * 50)
    screen = watch.look(story.store, home, 2, 1e9)
    story.store.close()
    for height, width in ((10, 40), (24, 80), (50, 200)):
        console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True)
        lines = console.render_lines(watch.draw(screen, console), pad=False)
        assert len(lines) <= height
        assert all(sum(segment.cell_length for segment in line) <= width for line in lines)


# --- text that would do something ---

EVIL = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u202c \x9b31m \r\nnew line \u2028 \ufeff"
FORBIDDEN = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n", "\t"}
FORBIDDEN |= set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029\ufeff")


@pytest.fixture
def hostile(home: Path) -> Path:
    """Every text column of tasks, attempts, events, holds and reviews holds something awful."""
    story = Story(home)
    for number in range(4):
        task = story.task(f"t{number}")
        folder = story.begin(task, marker=f"m{number}")
        (folder / "stdout").write_bytes(
            EVIL.encode() + b"\xff\xfe\x00\n" + b'{"type":"text","part":{"text":"\x1b[2J"}}\n'
        )
        story.end(task, Status.NEEDS_HUMAN, "x", outcome=OutcomeClass.KILLED, final_text=EVIL, notes=(EVIL,))
    db = story.store
    columns = {
        "task": "title brief_text status_reason difficulty_reason final_text notes repository batch branch brief_path",
        "attempt": "candidate model credential outcome_reason proof verdict_reason final_text host session_id "
        "observed_model harness_version end_reason snapshot_ref",
        "event": "text actor",
        "check_result": "command output",
    }
    db.connection.execute("PRAGMA foreign_keys = OFF")
    for table, names in columns.items():
        for name in names.split():
            db.connection.execute(f"UPDATE {table} SET {name} = ? || {name}", (EVIL,))
            db.connection.execute(f"UPDATE {table} SET {name} = 'a' || char(0) || 'b' WHERE rowid % 4 = 2")
            db.connection.execute(f"UPDATE {table} SET {name} = CAST(x'c3286588eda080ff' AS TEXT) WHERE rowid % 4 = 3")
    db.connection.execute("UPDATE task SET title = ? WHERE id = 4", (EVIL + "wide " * 200_000,))
    db.connection.execute("INSERT OR IGNORE INTO batch (name, created_at) SELECT batch, 1 FROM task")
    db.connection.execute("UPDATE attempt SET evidence = 'no json' WHERE id = 2")
    db.connection.execute(
        "INSERT INTO hold (scope, key, reason, created_at, actor) VALUES ('candidate', ?, ?, 1, ?)", (EVIL, EVIL, EVIL)
    )
    db.connection.execute(
        "INSERT INTO review (task_id, at, decision, kind, actor, text) VALUES (1, 1, 'accepted', 'person', ?, ?)",
        (EVIL, EVIL),
    )
    db.connection.execute(
        "INSERT INTO approval (task_id, attempt_id, asked_at, harness, tool, input, folder, digest, "
        "rule, status) VALUES (1, 1, 1, 'x', ?, ?, ?, 'd', ?, 'pending')",
        (EVIL, EVIL, EVIL, EVIL),
    )
    db.close()
    return home


COMMANDS = [
    ["status"],
    ["log"],
    ["log", "--columns", ",".join(lookup.COLUMNS)],
    ["log", "--text", "new line"],
    ["log", "--csv"],
    ["show", "1", "--brief"],
    ["show", "2"],
    ["show", "3"],
    ["show", "4", "--stdout"],
    ["tail", "1"],
    ["tail", "1", "--raw"],
    ["report"],
    ["report", "--markdown"],
    ["report", "--csv", "--table", "outcomes"],
    ["report", "--by", "repository"],
    ["holds"],
    ["watch", "--once"],
    ["export"],
    ["log", "path"],
]
DOCUMENTS = [
    ["status", "--json"],
    ["log", "--json"],
    ["show", "1", "--json"],
    ["show", "2", "--json"],
    ["show", "3", "--json"],
    ["show", "4", "--json"],
    ["report", "--json"],
    ["report", "--json", "--by", "batch"],
    ["holds", "--json"],
]


@pytest.mark.parametrize("words", COMMANDS + DOCUMENTS, ids=" ".join)
def test_nothing_in_the_log_reaches_the_terminal_as_a_command(hostile: Path, run: Run, words: list[str]) -> None:
    said = run(*words)
    assert said.code == 0, said.err
    assert not FORBIDDEN & set(said.out), sorted(map(ascii, FORBIDDEN & set(said.out)))
    assert not FORBIDDEN & set(said.err)
    if "--json" in words:
        json.loads(said.out)


def test_every_line_of_jsonl_is_json(hostile: Path, run: Run) -> None:
    for words in (["log", "--jsonl"], ["export"]):
        for line in run(*words).out.split("\n")[:-1]:
            json.loads(line)


def test_a_title_of_a_megabyte_leaves_room_for_others(hostile: Path, run: Run) -> None:
    assert max(map(len, run("log").out.splitlines())) < 2000
    assert len(run("report").out) < 100_000


def test_the_page_holds_none_of_it_either(hostile: Path, run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("report", "--html", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    assert not FORBIDDEN & set(text)
    assert len(text) < 200_000


def test_a_hostile_log_survives_the_journey(hostile: Path, run: Run, tmp_path: Path) -> None:
    first = tmp_path / "x.jsonl"
    assert run("export", str(first)).code == 0
    other = tmp_path / "other"
    other.mkdir()
    said = run("import", str(first), "--home", str(other))
    assert said.code == 0, said.err
    assert run("export", "--home", str(other)).out == first.read_text(encoding="ascii")
