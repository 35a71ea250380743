"""Export and import: whole or not at all, and the same text again afterwards, whatever stands in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatcher import store
from dispatcher.errors import BadInput, Refused
from dispatcher.store import figures, holds, queue, rollup, transfer
from dispatcher.store.database import Store
from dispatcher.task import HoldScope, Status
from tests.benchmarks import make_log
from tests.store.conftest import add, begin, end


def exported(db: Store) -> list[str]:
    return list(transfer.export_lines(db))


def hostile(db: Store) -> None:
    """What an evil or broken writer leaves: control characters, direction marks, a NUL, bytes that are no text."""
    db.connection.execute(
        "UPDATE task SET title = char(27) || '[2J' || char(8238) || 'x' || char(0) || 'y', "
        "notes = CAST(x'c328eda080ff' AS TEXT), status_reason = ? WHERE id = 1",
        ("long " * 200_000,),
    )


@pytest.fixture
def full(db: Store) -> Store:
    """Something in every table that people fill."""
    make_log.fill(db, 60)
    task = add(db, "Later", batch="night", after=(1,))
    attempt = begin(db, task.id)
    end(db, attempt, seconds=1.5)
    begin(db, task.id, 500.0)
    holds.add(db, HoldScope.CANDIDATE, "pickle", 9e9, "a limit", "me", 100.0)
    queue.add_note(db, task.id, 100.0, "a note", "me")
    db.connection.execute("DELETE FROM hold")
    db.set_meta("last_run", "1 cron")
    hostile(db)
    return db


def test_what_comes_back_is_the_same_text(full: Store, tmp_path: Path) -> None:
    first = exported(full)
    with store.open(tmp_path / "other" / "dispatcher.db") as other:
        rows = transfer.import_lines(other, first, file="log.jsonl")
        assert exported(other) == first
        assert rows == len(first) - 1
        assert queue.counts(other) == queue.counts(full)
        assert figures.attempts(other) == figures.attempts(full)
        assert other.read("PRAGMA integrity_check")[0][0] == "ok"
        held = holds.add(other, HoldScope.CANDIDATE, "x", None, "r", "me", 1.0)
        assert held.id == 2, "numbers are never used twice, in the new home neither"
        # The triggers are back: what happens next is counted.
        queue.update(other, 1, 1.0, status=Status.QUEUED)
        counted = other.read("SELECT sum(number) AS n FROM task_rollup")[0]["n"]
        assert counted == other.read("SELECT count(*) AS n FROM task")[0]["n"]


def test_every_line_is_ascii_json(full: Store) -> None:
    for line in exported(full):
        assert line.isascii()
        assert isinstance(json.loads(line), dict)


def test_every_table_is_written(db: Store) -> None:
    """A table that a later version brings must be exported, or be known as derived."""
    derived = {"rollup", "rollup_part", "task_rollup", "task_count", "alembic_version", "sqlite_sequence"}
    names = {row["name"] for row in db.read("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {name for name in names if "_search" not in name} - derived == set(transfer.TABLES)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "log:2: this is no JSON"),
        ("[]", "log:2: this is no JSON object"),
        ('{"table": "sqlite_master", "row": {"name": "x"}}', "log:2: this is no row of a table"),
        ('{"table": "task", "row": {"id": 1, "evil) --": 2}}', "log:2: task has no column"),
        ('{"table": "task", "row": {"id": 1}}', "log:2: this row of task cannot be stored"),
        ('{"table": "task", "row": {"id": [1]}}', "log:2: a column of task holds neither"),
        ('{"table": "task", "row": {"id": 99999999999999999999999}}', "log:2: this row of task cannot be stored"),
        ('{"sequence": "x", "last": 1}', "log:2: this is no sequence"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_stored(db: Store, line: str, said: str) -> None:
    with pytest.raises(BadInput) as raised:
        transfer.import_lines(db, ['{"dispatcher_export": 1, "schema": 1}', line], file="log")
    assert raised.value.message.startswith(said)
    assert db.read("SELECT * FROM task") == []
    triggers = db.read("SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%rollup_%'")
    assert len(triggers) == len(rollup.ROLLUP)


@pytest.mark.parametrize(
    ("head", "said"),
    [("{}", "no export of dispatcher"), ('{"dispatcher_export": 1, "schema": 999}', "a newer dispatcher")],
)
def test_a_strange_head_is_refused(db: Store, head: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        transfer.import_lines(db, [head], file="log")


def test_only_an_empty_log_takes_an_export(full: Store) -> None:
    lines = exported(full)
    with pytest.raises(Refused, match="not empty"):
        transfer.import_lines(full, lines, file="log")
    assert exported(full) == lines


def test_a_reference_to_nothing_is_found(db: Store) -> None:
    add(db)
    lines = [line for line in exported(db) if '"table":"task"' not in line]
    with store.open(Path(db.path).parent / "new" / "dispatcher.db") as other, pytest.raises(BadInput):
        transfer.import_lines(other, lines, file="log")
