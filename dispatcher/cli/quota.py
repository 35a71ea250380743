"""`quota`: what each credential has used, what its budgets allow, and when they run out at the speed so far."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dispatcher import quota
from dispatcher.cli import home
from dispatcher.cli.render import Column, form, json_out, one_form, out, table
from dispatcher.cli.wording import clock, money, tokens
from dispatcher.store import history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.task import Credential

Row = dict[str, Any]

_TITLES = {"window": "5 hours", "day": "today", "week": "this week", "month": "this month"}

_USED = [
    Column("credential", "credential"),
    Column("billing", "billing"),
    Column("window", "in", _TITLES.__getitem__),
    Column("attempts", "attempts", "{:.0f}".format, right=True),
    Column("minutes", "minutes", "{:.0f}".format, right=True),
    Column("tokens", "tokens", lambda count: tokens(int(count)), right=True),
    Column("list_price_usd", "list price", money, right=True, none="unknown"),
    Column("billed_usd", "billed", money, right=True, none="unknown"),
    Column("unpriced", "without a price", lambda count: str(count) if count else "", right=True),
]
_BUDGETS = [
    Column("credential", "credential"),
    Column("budget", "budget"),
    Column("used_text", "used", right=True, none="unknown"),
    Column("limit_text", "of", right=True),
    Column("share_used", "share", "{:.0%}".format, right=True),
    Column("share_gone", "time gone", "{:.0%}".format, right=True),
    Column("state", "state"),
    Column("outlook", "outlook", wide=True),
]
_CAPS = [
    Column("candidate", "candidate"),
    Column("used", "today", right=True),
    Column("per_day", "of", right=True),
    Column("ends", "until", clock),
]


def show_quota(explicit: Path | None, *, as_json: bool, as_csv: bool) -> None:
    one_form(as_json, as_csv)
    config, now = home.configured(explicit), time.time()
    used: list[Row] = []
    spend = quota.Spend()
    if home.has_store(config.home):
        with home.opened(config.home) as store:
            spend = history.spend(store, now)
            used = list(_used(config, store, spend, now))
    budgets = [row for credential in config.credentials.values() for row in _budgets(credential, spend, now)]
    caps = list(_caps(config, spend, now))
    if as_json:
        return json_out({"now": now, "used": used, "budgets": budgets, "per_day": caps})
    if as_csv:
        return table(budgets, _BUDGETS, form=form(as_csv=True))
    table(used, _USED, empty="nothing was used yet")
    for title, rows, columns in (("Budgets", budgets, _BUDGETS), ("Attempts per day", caps, _CAPS)):
        if rows:
            out()
            table(rows, columns, title=title)
    return None


def _used(config: Config, store: Store, spend: quota.Spend, now: float) -> Iterator[Row]:
    """One row per credential and window in which it was used. Money: the list price, and what was billed."""
    for name, windows in spend.per_credential.items():
        known = config.credentials.get(name)
        for window, totals in windows.items():
            if not totals.attempts:
                continue
            since = totals.since if window == "window" and totals.since is not None else quota.bounds(window, now)[0]
            billed, unpriced = history.paid(store, name, since)
            yield {
                "credential": name,
                "billing": None if known is None else str(known.billing),
                "window": window,
                "attempts": totals.attempts,
                "minutes": totals.minutes,
                "tokens": totals.tokens,
                "list_price_usd": totals.usd,
                "billed_usd": billed,
                "unpriced": unpriced,
            }


def _budgets(credential: Credential, spend: quota.Spend, now: float) -> Iterator[Row]:
    for line in quota.pace(credential, spend, now):
        yield {
            "credential": line.credential,
            "billing": str(credential.billing),
            "measure": line.measure,
            "window": line.window,
            "budget": f"{line.measure}, {_TITLES[line.window]}",
            "used": line.used,
            "limit": line.limit,
            "used_text": None if line.used is None else _amount(line.measure, line.used),
            "limit_text": _amount(line.measure, line.limit),
            "share_used": line.share_used,
            "share_gone": line.share_gone,
            "starts": line.starts,
            "ends": line.ends,
            "runs_out": line.runs_out,
            "above_pace": line.above,
            "state": _state(line),
            "outlook": _outlook(line),
        }


def _caps(config: Config, spend: quota.Spend, now: float) -> Iterator[Row]:
    for candidate in config.roster.candidates.values():
        if candidate.per_day is not None:
            yield {
                "candidate": candidate.name,
                "used": spend.per_candidate_today.get(candidate.name, 0),
                "per_day": candidate.per_day,
                "ends": quota.bounds("day", now)[1],
            }


def _state(line: quota.Pace) -> str:
    if line.used is None:
        return "unknown"
    if line.used >= line.limit:
        return "used up"
    return "above pace" if line.above else "ok"


def _outlook(line: quota.Pace) -> str:
    if line.used is None:
        return "no run has told its price"
    if line.used >= line.limit:
        return f"free again {clock(line.ends)}"
    return f"lasts until {clock(line.ends)}" if line.runs_out is None else f"runs out {clock(line.runs_out)}"


def _amount(measure: str, value: float) -> str:
    return money(value) if measure == "usd" else tokens(int(value)) if measure == "tokens" else f"{value:.0f}"
