"""Spend and budgets -> may this credential be used, and when will it run out.

Windows: `day`, `week` (from Monday) and `month` are calendar windows in UTC; `window` is the last five hours, rolling;
`total` belongs to a task and never ends. Unknown money is None and refuses nothing: it is neither zero nor too much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta

from dispatcher.record import record
from dispatcher.task import Billing, Budget, Credential
from dispatcher.words import plural

ROLLING = 5 * 3600.0
WINDOWS = ("window", "day", "week", "month")
MEASURES = ("usd", "tokens", "attempts", "minutes")
_LOOK_AGAIN = 15 * 60.0  # a rolling window that does not say when its oldest attempt was


@record
class Totals:
    """What was used in one window. `since` is the time of the oldest attempt counted (for the rolling window)."""

    usd: float | None = None
    tokens: float = 0.0
    attempts: float = 0.0
    minutes: float = 0.0
    since: float | None = None
    billed: float | None = None  # what was really paid; `usd` is the list price
    unpriced: int = 0  # attempts whose price nobody told: `usd` is then a lower bound


@record
class Spend:
    """Attempts of each candidate since 00:00 UTC, and the totals of each credential per window."""

    per_candidate_today: Mapping[str, int] = field(default_factory=dict)
    per_credential: Mapping[str, Mapping[str, Totals]] = field(default_factory=dict)


@record
class Pace:
    """One budget line. Shares are between 0 and 1 (`share_used` may exceed 1); `runs_out` is None when it lasts."""

    credential: str
    measure: str
    window: str
    used: float | None
    limit: float
    share_used: float | None
    share_gone: float
    starts: float
    ends: float
    runs_out: float | None

    @property
    def above(self) -> bool:
        """More is used than time has gone."""
        return self.share_used is not None and self.share_used > self.share_gone


def bounds(window: str, now: float, since: float | None = None) -> tuple[float, float]:
    """Start and end of the window that holds `now`. The rolling one ends when its oldest attempt drops out."""
    if window == "window":
        start = now - ROLLING if since is None else since
        return start, start + ROLLING
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if window == "day":
        return today.timestamp(), (today + timedelta(days=1)).timestamp()
    if window == "week":
        monday = today - timedelta(days=today.weekday())
        return monday.timestamp(), (monday + timedelta(days=7)).timestamp()
    first = today.replace(day=1)
    return first.timestamp(), (first + timedelta(days=32)).replace(day=1).timestamp()


def over_budget(credential: Credential, spend: Spend, now: float) -> tuple[str, float] | None:
    """The budget that is used up, in words, and until when; the one that lasts longest when there are several."""
    worst: tuple[str, float] | None = None
    for line in pace(credential, spend, now):
        if line.used is None or line.used < line.limit:
            continue
        until = line.ends if line.ends > now else now + _LOOK_AGAIN
        if worst is None or until > worst[1]:
            used = f"{_amount(line.measure, line.used)} of {_amount(line.measure, line.limit)}"
            gone = f"{line.share_gone:.0%} of it gone"
            worst = f"budget of {credential.name} used up: {used} in this {_window_name(line.window)}, {gone}", until
    return worst


def billed(billing: Billing, list_price: float | None, *, known: bool = True) -> float | None:
    """What an attempt was charged, as far as anybody can tell.

    Free and subscription runs cost nothing beyond the plan; `known` False (the plan was exceeded, or other money than
    the credential's was spent) makes that unknown. Keys and credit pay the list price; an unknown one stays unknown.
    """
    if not known:
        return None
    return 0.0 if billing in (Billing.FREE, Billing.SUBSCRIPTION) else list_price


def over_total(budget: Budget, used: Totals) -> str | None:
    """Why a task may not start another attempt under its own budget; None when it may."""
    for measure in MEASURES:
        limit = _limits(budget, measure).get("total")
        amount = _used(used, measure)
        if limit is not None and amount is not None and amount >= limit:
            return f"budget of the task used up: {_amount(measure, amount)} of {_amount(measure, limit)}"
    return None


def pace(credential: Credential, spend: Spend, now: float) -> tuple[Pace, ...]:
    """Every budget line of a credential: used, limit, share of the window gone, when it runs out."""
    return tuple(_paces(credential, spend.per_credential.get(credential.name, {}), now))


def above_pace(credential: Credential, spend: Spend, now: float) -> Pace | None:
    """The line that is furthest above its pace, None when all are below. Free credentials have no pace to keep."""
    if credential.billing is Billing.FREE:
        return None
    lines = [line for line in pace(credential, spend, now) if line.above]
    return max(lines, key=lambda line: (line.share_used or 0.0) - line.share_gone, default=None)


def _paces(credential: Credential, totals: Mapping[str, Totals], now: float) -> Iterator[Pace]:
    for measure in MEASURES:
        for window, limit in _limits(credential.budget, measure).items():
            if window not in WINDOWS:
                continue
            seen = totals.get(window, Totals(usd=0.0))
            starts, ends = bounds(window, now, seen.since)
            used = _used(seen, measure)
            share_used = None if used is None else used / limit if limit > 0 else 1.0
            gone = min(max((now - starts) / (ends - starts), 0.0), 1.0)
            runs_out = _runs_out(used, limit, starts, ends, now)
            yield Pace(credential.name, measure, window, used, limit, share_used, gone, starts, ends, runs_out)


def _runs_out(used: float | None, limit: float, starts: float, ends: float, now: float) -> float | None:
    """At the speed so far; None when unknown, or when the budget lasts longer than its window."""
    if used is None:
        return None
    if used >= limit:
        return now
    if used <= 0 or now <= starts:
        return None
    at = starts + (now - starts) * limit / used
    return at if at < ends else None


def _limits(budget: Budget, measure: str) -> Mapping[str, float]:
    table = {"usd": budget.usd, "tokens": budget.tokens, "attempts": budget.attempts, "minutes": budget.minutes}
    return table[measure]


def _used(totals: Totals, measure: str) -> float | None:
    table = {"usd": totals.usd, "tokens": totals.tokens, "attempts": totals.attempts, "minutes": totals.minutes}
    return table[measure]


def _amount(measure: str, value: float) -> str:
    return f"${value:.2f}" if measure == "usd" else plural(round(value), measure.removesuffix("s"))


def _window_name(window: str) -> str:
    return "window of five hours" if window == "window" else window
