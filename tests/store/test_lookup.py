"""Filters of `log`: whatever way SQLite is led, the answer is that of a plain loop over all rows."""

from __future__ import annotations

import random
import sqlite3
from typing import Any

import pytest

from dispatcher.errors import BadInput
from dispatcher.store import lookup, opening
from dispatcher.store.database import Store
from tests.benchmarks import make_log

COUNT = 400


@pytest.fixture
def log(db: Store) -> Store:
    make_log.fill(db, COUNT)
    return db


def everything(db: Store) -> list[dict[str, Any]]:
    rows = db.read("SELECT a.*, t.* FROM attempt a JOIN task t ON t.id = a.task_id")
    names = ", ".join(f"{source} AS {name}" for name, (source, _) in lookup.COLUMNS.items())
    rows = db.read(f"SELECT a.id AS id_, {names} FROM attempt a JOIN task t ON t.id = a.task_id")
    return sorted((dict(row) for row in rows), key=lambda row: (-row["started_at"], -row["id_"]))


def test_every_mix_of_filters_is_right(log: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(1)
    rows = everything(log)
    moments = [row["started_at"] for row in rows]
    for _ in range(120):
        monkeypatch.setattr(lookup, "_FEW", dice.choice([0, 20, 5000]))
        monkeypatch.setattr(lookup, "PAGE", dice.choice([3, 5000]))
        names = dice.sample(list(lookup.FILTERS), dice.randrange(4))
        filters = {name: [dice.choice(rows)[name] for _ in range(dice.randrange(1, 3))] for name in names}
        filters = {name: [value for value in values if value is not None] for name, values in filters.items()}
        since, until = (dice.choice([None, dice.choice(moments)]) for _ in range(2))
        limit = dice.choice([0, 5, 20])
        where = dice.choice([None, "seconds > 100", "title LIKE '%login%' OR task_status = 'accepted'"])
        wanted = [
            row["id_"]
            for row in rows
            if all(row[name] in values for name, values in filters.items() if values)
            and (since is None or row["started_at"] >= since)
            and (until is None or row["started_at"] < until)
            and (where is None or fits(row, where))
        ]
        query = lookup.Query(filters, since=since, until=until, limit=limit, where=where, columns=["task", "attempt"])
        found = [(row["task"], row["attempt"]) for row in lookup.find(log, query)]
        by_id = {row["id_"]: (row["task"], row["attempt"]) for row in rows}
        assert found == [by_id[number] for number in wanted][: limit or None], query.filters


def fits(row: dict[str, Any], where: str) -> bool:
    if where.startswith("seconds"):
        return bool(row["seconds"] > 100)
    return "login" in row["title"].lower() or row["status"] == "accepted"


def test_failed_means_ended_and_neither_completed_nor_stopped(log: Store) -> None:
    log.connection.execute("UPDATE attempt SET outcome = 'stopped' WHERE outcome = 'killed'")
    found = lookup.find(log, lookup.Query({"outcome": [lookup.FAILED]}, limit=0))
    assert len(found) == sum(row["outcome"] not in ("completed", "stopped") for row in everything(log))
    both = lookup.find(log, lookup.Query({"outcome": [lookup.FAILED, "completed", "stopped"]}, limit=0))
    assert len(both) == len(everything(log))


def test_words_are_found_however_rare_or_common(log: Store) -> None:
    log.connection.execute("UPDATE task SET notes = 'a platypus' WHERE id IN (3, 90)")
    found = lookup.find(log, lookup.Query(text="platypus", limit=0))
    assert {row["task"] for row in found} == {3, 90}
    common = [row for row in everything(log) if row["task"]]
    with_done = lookup.find(log, lookup.Query(text="done", limit=0))
    assert len(with_done) == len(common)  # the task's last words are "Done."
    narrow = lookup.find(log, lookup.Query({"task": [3]}, text="platypus", limit=1))
    assert [row["task"] for row in narrow] == [3]
    assert lookup.find(log, lookup.Query(text='" OR NEAR(', limit=5)) == []


def test_sorting_puts_the_unknown_last(log: Store) -> None:
    log.connection.execute("UPDATE attempt SET cost_usd = NULL WHERE id % 2")
    for sort, turn in (("list_price_usd", 1), ("~list_price_usd", -1)):
        prices = [row["list_price_usd"] for row in lookup.find(log, lookup.Query(sort=sort, limit=0))]
        known = [price for price in prices if price is not None]
        assert known == sorted(known, key=lambda price: turn * price)
        assert prices[len(known) :] == [None] * (len(prices) - len(known))


def test_words_and_a_typed_condition_together(log: Store) -> None:
    """In a process that has not searched for words before, as `dispatcher log` is."""
    both = lookup.Query(text="login", where="seconds > 100", limit=0, columns=["task", "attempt", "seconds"])
    with opening.open(log.path) as fresh:
        found = lookup.find(fresh, both)
    every = lookup.find(log, lookup.Query(text="login", limit=0, columns=["task", "attempt", "seconds"]))
    assert found
    assert found == [row for row in every if (row["seconds"] or 0) > 100] != every


@pytest.mark.parametrize(
    "where",
    [
        "1; DROP TABLE task",
        "1) UNION SELECT 1 --",
        "(SELECT load_extension('x'))",
        "nothing_here = 1",
        "1 = (SELECT count(*) FROM pragma_table_info('task')",
        "",
    ],
)
def test_a_typed_condition_can_only_read(log: Store, where: str) -> None:
    with pytest.raises(BadInput, match="--where cannot be used"):
        lookup.find(log, lookup.Query(where=where))
    assert log.read("SELECT count(*) AS n FROM task")[0]["n"] == COUNT // 2


def test_a_typed_condition_may_not_run_for_ever(log: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_SECONDS", 0.0)
    endless = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n) > 0"
    with pytest.raises(BadInput, match="takes too long"):
        lookup.find(log, lookup.Query(where=endless))
    assert lookup.find(log, lookup.Query(limit=1)), "the connection is whole afterwards"


def test_an_unknown_column_names_its_neighbour(log: Store) -> None:
    with pytest.raises(BadInput) as raised:
        lookup.find(log, lookup.Query(columns=["candidat"]))
    assert raised.value.hint == "did you mean candidate?"


@pytest.mark.parametrize(
    "query",
    [
        lookup.Query(),
        lookup.Query({"outcome": ["failed"]}, since=1.0),
        lookup.Query({"candidate": ["opus"]}),
        lookup.Query({"verdict": ["review"]}),
        lookup.Query({"harness": ["claude"], "difficulty": ["hard"]}),
        lookup.Query(where="seconds > 5"),
    ],
    ids=["newest", "outcome", "candidate", "verdict", "harness and difficulty", "where"],
)
def test_the_usual_questions_never_sort_the_log(
    log: Store, query: lookup.Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each walks an index in the order of the answer: that is what keeps a million attempts quick."""
    monkeypatch.setattr(lookup, "_FEW", 0)
    seen = list[str]()
    log.connection.set_trace_callback(seen.append)
    lookup.find(log, query)
    log.connection.set_trace_callback(None)
    plan = [str(row["detail"]) for row in log.read("EXPLAIN QUERY PLAN " + seen[-1])]
    # "RIGHT PART": only attempts that began at the very same moment are put in order.
    sorts = [line for line in plan if "TEMP B-TREE" in line and "RIGHT PART" not in line]
    assert not sorts, plan
    assert not any(line.startswith("SCAN t") for line in plan), plan


def test_text_that_is_no_utf_8_is_read(log: Store) -> None:
    log.connection.execute("UPDATE task SET title = CAST(x'c328eda080' AS TEXT)")
    assert lookup.find(log, lookup.Query(limit=1))[0]["title"] == "\udcc3(\udced\udca0\udc80"
    with pytest.raises(sqlite3.OperationalError):
        log.connection.execute("SELECT nothing")
