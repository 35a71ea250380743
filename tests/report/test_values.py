"""A report as values: what is counted, what stays unknown, and the same tables in every form."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import report
from dispatcher.report import markdown, page, values
from dispatcher.report.shown import money, shown, tokens

MEASURES = (
    "attempts tasks counted delivered saved false_done nearly_lost accepted rejected seconds cost_usd priced "
    "billed_usd billed tokens_input tokens_output tokens_cache_read tokens_cache_write tokens_reasoning"
)


def row(**given: Any) -> dict[str, Any]:
    keys = {
        "candidate": "small",
        "harness": "opencode",
        "model": "m/small",
        "credential": "zen",
        "billing": "free",
        "difficulty": "easy",
        "outcome": "completed",
        "period": "2026-11",
    }
    return {**keys, **dict.fromkeys(MEASURES.split(), 0), "attempts": 1, **given}


def made(rows: list[dict[str, Any]], tasks: list[dict[str, Any]] | None = None, **more: Any) -> report.Report:
    return report.build(rows, rows, tasks or [], made_at=0.0, **more)


def cell(found: report.Report, table: str, key: str, line: int = 0) -> Any:
    return found.names[table].rows[line][key]


def test_the_cost_of_an_accepted_task_holds_its_failures() -> None:
    """Three attempts, one of them failed, for two accepted tasks: everything that was spent over two."""
    rows = [
        row(attempts=2, accepted=2, seconds=600, cost_usd=3.0, priced=2),
        row(outcome="killed", seconds=600, cost_usd=1.0, priced=1),
    ]
    found = made(rows)
    assert cell(found, "accepted", "minutes_per_accepted") == 10.0  # 1200 s / 60 / 2
    assert cell(found, "accepted", "usd_per_accepted") == 2.0  # 4.0 / 2


def test_who_was_stopped_neither_failed_nor_nearly_lost_its_work() -> None:
    found = made([row(outcome="stopped", attempts=2, nearly_lost=2), row(outcome="lost", nearly_lost=1)])
    for table in ("main", "time"):
        assert (cell(found, table, "attempts"), cell(found, table, "failed")) == (3, 1)
    assert cell(found, "main", "nearly_lost") == 1
    assert [one["number"] for one in found.names["summary"].rows if one["key"] == "nearly_lost"] == [1]


def test_unknown_is_empty_and_never_zero() -> None:
    found = made([row(seconds=60)])
    assert cell(found, "accepted", "usd_per_accepted") is None
    assert cell(found, "accepted", "minutes_per_accepted") is None, "nothing was accepted"
    assert cell(found, "credentials", "list_price_usd") is None
    free = made([row(priced=1, cost_usd=0.0)])
    assert cell(free, "credentials", "list_price_usd") == 0.0


def test_delivered_and_not_are_of_tasks() -> None:
    rows = [row(tasks=5, delivered=2, attempts=5), row(outcome="rate_limited", tasks=1, attempts=4)]
    found = made(rows)
    wanted = {"tasks": 6, "delivered": 2, "not_delivered": 4, "completed": 5, "quota_events": 4, "failed": 0}
    assert {key: cell(found, "main", key) for key in wanted} == wanted


def test_tasks_stand_somewhere_exactly_once() -> None:
    tasks = [
        {"difficulty": "hard", "status": status, "number": number}
        for number, status in enumerate(("accepted", "needs_review", "needs_human", "queued", "running"), 1)
    ]
    summary = {line["key"]: line["number"] for line in made([], tasks).names["summary"].rows}
    assert summary["tasks"] == 15
    assert summary["delivered"] + summary["not_delivered"] + summary["open"] == 15
    assert (summary["delivered"], summary["not_delivered"], summary["open"]) == (3, 3, 9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["completed", "lost", "rate_limited"]), st.integers(1, 9))
    )
)
def test_no_attempt_is_lost_in_any_table(given_rows: list[tuple[str, str, int]]) -> None:
    rows = [row(candidate=name, outcome=outcome, attempts=count) for name, outcome, count in given_rows]
    total = sum(count for _, _, count in given_rows)
    found = made(rows)
    for table in ("main", "credentials", "accepted", "time"):
        assert sum(line["attempts"] for line in found.names[table].rows) == total
    matrix = sum(value for line in found.names["outcomes"].rows for value in line.values() if isinstance(value, int))
    assert matrix == total


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "$0.00"), (0.004, "$0.0040"), (1234.5, "$1,234.50"), (0.01, "$0.01")]
)
def test_money(value: float, text: str) -> None:
    assert money(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(9_999, "9999"), (10_000, "10.0k"), (1_500_000, "1.5M"), (2_000_000_000, "2.0G")]
)
def test_tokens(value: int, text: str) -> None:
    assert tokens(value) == text


def test_each_form_shows_the_same_numbers() -> None:
    found = made([row(attempts=1234, seconds=600, cost_usd=2.5, priced=3, tasks=7)])
    text, html = markdown.render(found.tables, "all"), page.render(found, "all", str)
    for table in found.tables[1:]:
        for line in table.rows:
            for column in table.columns:
                word = shown(line.get(column.key), column)
                assert f" {word.replace('_', chr(92) + '_')} " in text, (table.name, column.key)
                assert f">{word}<" in html, (table.name, column.key)


HOSTILE = "</script><script>alert(1)</script><img src=http://x.invalid/a onerror=alert(1)> | `x` [a](b) \"'"


def test_no_text_becomes_markup() -> None:
    found = made(
        [row(candidate=HOSTILE, model=HOSTILE, credential=HOSTILE)],
        newest=[
            {
                "id": 1,
                "title": HOSTILE,
                "status": "queued",
                "difficulty": "easy",
                "model": HOSTILE,
                "outcome": None,
                "attempts": 1,
                "seconds": None,
                "cost_usd": None,
                "created_at": 1.0,
            }
        ],
    )
    html = page.render(found, HOSTILE, str)
    assert html.count("<script>") == 1
    assert "<img" not in html
    lines = markdown.render(found.tables, HOSTILE).splitlines()
    assert not any(re.search(r"(?<!\\)(<img|\[a)", line) for line in lines)
    table = [line for line in lines if line.startswith("| ") and "alert" in line]
    assert table
    heads = {line.count(" | ") for line in lines if line.startswith("| candidate")}
    assert {len(re.findall(r"(?<!\\) \| ", line)) for line in table[:1]} <= heads


def test_the_names_are_stable() -> None:
    assert list(made([row()]).names) == ["summary", "main", "outcomes", "credentials", "accepted", "tasks", "time"]
    assert set(values.GROUPS) >= {"candidate", "model", "harness", "credential", "difficulty", "repository"}
