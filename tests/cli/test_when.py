"""Times as people type them, in the zone of the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.cli import when
from dispatcher.errors import BadInput

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 31, 15, 30, tzinfo=ZONE).timestamp()  # a Tuesday, two days after the clocks went forward


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=ZONE).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", at(2026, 3, 31), at(2026, 4, 1)),
        ("yesterday", at(2026, 3, 30), at(2026, 3, 31)),
        ("Sunday", at(2026, 3, 29), at(2026, 3, 30)),  # 23 hours long
        ("tuesday", at(2026, 3, 31), at(2026, 4, 1)),
        ("this week", at(2026, 3, 30), at(2026, 4, 6)),
        ("last  week", at(2026, 3, 23), at(2026, 3, 30)),
        ("this month", at(2026, 3, 1), at(2026, 4, 1)),
        ("last month", at(2026, 2, 1), at(2026, 3, 1)),
        ("this year", at(2026, 1, 1), at(2027, 1, 1)),
        ("last year", at(2025, 1, 1), at(2026, 1, 1)),
        ("2026-02", at(2026, 2, 1), at(2026, 3, 1)),
        ("2026-03-29", at(2026, 3, 29), at(2026, 3, 30)),
        ("2026-03-29 14:30", at(2026, 3, 29, 14, 30), at(2026, 3, 29, 14, 30)),
        ("2026-03-29T14:30:00Z", at(2026, 3, 29, 16, 30), at(2026, 3, 29, 16, 30)),
        ("now", NOW, NOW),
        ("7d", NOW - 7 * 86400, NOW - 7 * 86400),
        ("2 hours ago", NOW - 7200, NOW - 7200),
        ("last 3 weeks", NOW - 21 * 86400, NOW - 21 * 86400),
        ("90min", NOW - 5400, NOW - 5400),
    ],
)
def test_what_is_understood(text: str, start: float, end: float) -> None:
    assert (when.since(text, NOW), when.until(text, NOW)) == (start, end)


@pytest.mark.parametrize("text", ["", "soon", "7", "7 parsecs", "2026-13-01", "99999999999d", "999999999y", "last"])
def test_what_is_not_understood_is_said(text: str) -> None:
    with pytest.raises(BadInput, match="is no time"):
        when.since(text, NOW)


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_time_or_an_error(text: str) -> None:
    try:
        assert when.since(text, NOW) <= when.until(text, NOW)
    except BadInput:
        return
