"""Budgets per window, and the pace at which they are used. 2026-03-18 is a Wednesday."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dispatcher.quota import ROLLING, Pace, Spend, Totals, above_pace, billed, bounds, over_budget, over_total, pace
from dispatcher.task import Billing, Budget, Credential


def at(day: int, hour: int = 0, month: int = 3) -> float:
    return datetime(2026, month, day, hour, tzinfo=UTC).timestamp()


NOW = at(18, 12)


Caps = dict[str, dict[str, float]]


def credential(budget: Caps, billing: Billing = Billing.METERED) -> Credential:
    return Credential("api", billing, budget=Budget(**budget))


def spend(**windows: Totals) -> Spend:
    return Spend(per_credential={"api": windows})


@pytest.mark.parametrize(
    ("window", "start", "end"),
    [
        ("day", at(18), at(19)),
        ("week", at(16), at(23)),
        ("month", at(1), at(1, month=4)),
        ("window", NOW - ROLLING, NOW),
    ],
)
def test_bounds(window: str, start: float, end: float) -> None:
    assert bounds(window, NOW) == (start, end)


def test_the_month_after_december_is_january() -> None:
    december = datetime(2026, 12, 31, 23, tzinfo=UTC).timestamp()
    assert bounds("month", december)[1] == datetime(2027, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("budget", "windows", "until"),
    [
        ({"usd": {"day": 5}}, {"day": Totals(usd=4.99)}, None),
        ({"usd": {"day": 5}}, {"day": Totals(usd=5.0)}, at(19)),
        ({"usd": {"day": 5}}, {"day": Totals(usd=None, tokens=9e9)}, None),  # unknown is not "too much"
        ({"usd": {"day": 5}}, {}, None),
        ({"tokens": {"week": 100}}, {"week": Totals(tokens=100)}, at(23)),
        ({"attempts": {"month": 0}}, {}, at(1, month=4)),  # a budget of nothing
        ({"minutes": {"day": 1, "month": 1}}, {"day": Totals(minutes=2), "month": Totals(minutes=2)}, at(1, month=4)),
        ({"attempts": {"window": 3}}, {"window": Totals(attempts=3, since=NOW - 3600)}, NOW - 3600 + ROLLING),
        ({"attempts": {"total": 1}}, {"total": Totals(attempts=9)}, None),  # of a task, not of a credential
    ],
)
def test_over_budget(budget: Caps, windows: dict[str, Totals], until: float | None) -> None:
    found = over_budget(credential(budget), spend(**windows), NOW)
    assert (found[1] if found else None) == until
    if found:
        assert "budget of api used up" in found[0]


def test_a_rolling_window_without_a_start_is_looked_at_again_soon() -> None:
    found = over_budget(credential({"attempts": {"window": 1}}), spend(window=Totals(attempts=2)), NOW)
    assert found is not None
    assert NOW < found[1] <= NOW + 3600


def test_pace_says_when_it_runs_out() -> None:
    """Half of the day is gone and three quarters of the money: at this speed it ends after 16 of 24 hours."""
    (line,) = pace(credential({"usd": {"day": 8}}), spend(day=Totals(usd=6.0)), NOW)
    assert line == Pace("api", "usd", "day", 6.0, 8, 0.75, 0.5, at(18), at(19), at(18, 16))
    assert line.above


@pytest.mark.parametrize(
    ("used", "share", "runs_out", "above"),
    [
        (0.0, 0.0, None, False),
        (2.0, 0.25, None, False),  # lasts longer than the day
        (8.0, 1.0, NOW, True),
        (None, None, None, False),
    ],
)
def test_pace_edges(used: float | None, share: float | None, runs_out: float | None, above: bool) -> None:
    (line,) = pace(credential({"usd": {"day": 8}}), spend(day=Totals(usd=used)), NOW)
    assert (line.share_used, line.runs_out, line.above) == (share, runs_out, above)


def test_above_pace_names_the_worst_line_and_never_a_free_one() -> None:
    budget: Caps = {"usd": {"day": 8}, "tokens": {"day": 100}}
    used = spend(day=Totals(usd=5.0, tokens=90))
    found = above_pace(credential(budget), used, NOW)
    assert found is not None
    assert found.measure == "tokens"
    assert above_pace(credential(budget, Billing.FREE), used, NOW) is None


@pytest.mark.parametrize(
    ("used", "over"),
    [(Totals(usd=1.99), False), (Totals(usd=2.0), True), (Totals(usd=None), False), (Totals(usd=0, attempts=5), True)],
)
def test_budget_of_a_task(used: Totals, over: bool) -> None:
    assert (over_total(Budget(usd={"total": 2}, attempts={"total": 5}), used) is not None) is over


@pytest.mark.parametrize(
    ("billing", "price", "known", "paid"),
    [
        (Billing.FREE, 0.3, True, 0.0),
        (Billing.SUBSCRIPTION, 0.3, True, 0.0),
        (Billing.SUBSCRIPTION, None, True, 0.0),
        (Billing.SUBSCRIPTION, 0.3, False, None),  # beyond the plan
        (Billing.METERED, 0.3, True, 0.3),
        (Billing.CREDIT, None, True, None),
        (Billing.METERED, 0.3, False, None),  # other money than the credential's
    ],
)
def test_billed(billing: Billing, price: float | None, known: bool, paid: float | None) -> None:
    assert billed(billing, price, known=known) == paid
