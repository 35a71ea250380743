"""The sums of a report: whole months from the rollup and the rest from rows give what the rows alone give."""

from __future__ import annotations

import calendar
import random
from typing import Any

import pytest

from dispatcher.errors import BadInput
from dispatcher.store import figures
from dispatcher.store.database import Store
from tests.benchmarks import make_log

DAY = 86400.0


@pytest.fixture
def log(db: Store) -> Store:
    make_log.fill(db, 600)
    return db


def flat(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(round(value, 5) if isinstance(value, float) else value for value in (row[name] for name in keys))
        for row in rows
    )


def spans() -> list[tuple[float | None, float | None]]:
    dice = random.Random(3)
    first = float(calendar.timegm((2025, 3, 1, 0, 0, 0)))
    found: list[tuple[float | None, float | None]] = [(None, None), (first, None), (None, first), (first, first + 1)]
    for _ in range(12):
        start = make_log.END - dice.random() * make_log.SPAN
        found += [(start, None), (start, start + dice.random() * 200 * DAY), (None, start)]
    return found


@pytest.mark.parametrize("filters", [{}, {"candidate": "opus"}, {"difficulty": "hard"}], ids=str)
def test_the_rollup_agrees_with_the_rows(log: Store, filters: dict[str, str]) -> None:
    keys = (*figures.KEYS, *figures.MEASURES)
    for span in spans():
        rolled = figures.attempts(log, span, filters)
        select = ", ".join(figures.KEYS)
        rows = figures._sums(log, select, figures.KEYS, span, filters, part=None)
        assert flat(rolled, keys) == flat(rows, keys), span


def test_tasks_are_counted_the_same_way(log: Store) -> None:
    for since, until in spans():
        counted = log.read(
            "SELECT difficulty, status, count(*) AS number FROM task WHERE created_at >= ? AND created_at < ? "
            "GROUP BY difficulty, status",
            (since or 0, until or 9e9),
        )
        keys = ("difficulty", "status", "number")
        assert flat(figures.tasks(log, (since, until)), keys) == flat([dict(row) for row in counted], keys)


def test_steps_of_time_add_up(log: Store) -> None:
    total = log.read("SELECT count(*) AS n FROM attempt")[0]["n"]
    for unit in figures.PERIODS:
        rows = figures.over_time(log, unit, (None, None))
        assert sum(row["attempts"] for row in rows) == total
    weeks = {row["period"] for row in figures.over_time(log, "week", (None, None))}
    assert all(calendar.weekday(*map(int, week.split("-"))) == calendar.MONDAY for week in weeks)


FILTERS: list[dict[str, str]] = [
    {},
    {"candidate": "opus"},
    {"repository": "/home/me/src/project3"},
    {"repository": "/home/me/src/project3", "difficulty": "hard"},
    {"repository": "/home/me/src/project3", "source": "terminal"},
    {"batch": "night"},
    {"source": "terminal", "harness": "claude"},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_every_report_agrees_with_the_rows(log: Store, filters: dict[str, str]) -> None:
    """Whichever sums a question is answered from."""
    log.connection.execute("INSERT INTO batch (name, created_at) VALUES ('night', 0)")
    log.connection.execute("UPDATE task SET batch = 'night' WHERE id % 3 = 0")
    for span in spans()[:8]:
        for name in ("repository", "batch", "source"):
            keys, select = ("name", "outcome"), f"coalesce({name}, '') AS name, outcome"
            rows = figures._sums(log, select, keys, span, filters, part=None)
            kept = figures.grouped(log, name, span, filters)
            assert flat(kept, (*keys, *figures.MEASURES)) == flat(rows, (*keys, *figures.MEASURES)), (name, span)
        for unit, expression in figures.PERIODS.items():
            keys, select = ("period", "outcome"), f"{expression} AS period, outcome"
            rows = figures._sums(log, select, keys, span, filters, part=None, measures=figures.IN_TIME)
            kept = figures.over_time(log, unit, span, filters)
            assert flat(kept, (*keys, *figures.IN_TIME)) == flat(rows, (*keys, *figures.IN_TIME)), (unit, span)
        rows = figures._sums(log, ", ".join(figures.KEYS), figures.KEYS, span, filters, part=None)
        every = (*figures.KEYS, *figures.MEASURES)
        assert flat(figures.attempts(log, span, filters), every) == flat(rows, every), span


def test_filters_that_no_report_knows(log: Store) -> None:
    assert figures.tasks(log, filters={"candidate": "opus"}) == [], "a task has no candidate of its own"
    with pytest.raises(BadInput, match="no filter"):
        figures.attempts(log, filters={"title": "x"})


def test_the_newest_tasks_come_with_what_they_used(log: Store) -> None:
    rows = figures.newest_tasks(log, 5)
    assert [row["id"] for row in rows] == [300, 299, 298, 297, 296]
    told = log.read("SELECT count(*) AS n, sum(seconds) AS s FROM attempt WHERE task_id = 300")[0]
    assert (rows[0]["attempts"], rows[0]["seconds"]) == (told["n"], told["s"])
    assert all(row["model"] for row in figures.newest_tasks(log, 5, filters={"candidate": "opus"}))
