"""`status`: what runs, what waits and until when, what needs a person, what is on hold."""

from __future__ import annotations

import time

from dispatcher.cli import home
from dispatcher.cli.render import Column, clean, json_out, out, table
from dispatcher.cli.wording import ago, busy, clock, duration
from dispatcher.errors import DispatcherError
from dispatcher.words import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

Row = dict[str, "Any"]

_ORDER = ("running", "queued", "waiting", "awaiting_approval", "needs_human", "needs_review", "paused", "failed")
_NOTHING: Row = {
    "counts": {},
    "running": [],
    "review": [],
    "person": [],
    "holds": [],
    "next_wake": None,
    "held": 0,
    "last_success": [],
}
_NOTHING |= {"last_run": None, "schedule": None, "next_tick": None, "host_busy": None, "refused": None}


_MOST = 20  # rows of a section


def show_status(explicit: Path | None, *, every: bool, as_json: bool) -> None:
    folder = home.find(explicit)
    now = time.time()
    found: Row = {"home": str(folder), "now": now, **_NOTHING}
    if home.has_store(folder):
        from dispatcher.store import glance

        with home.opened(folder, reading=True) as store:
            found |= glance.status(store, now)
            if every:
                found["tasks"] = glance.tasks(store)
    found |= obstacles(folder, found, now)
    if found["schedule"]:
        from dispatcher.cron import next_tick

        found["next_tick"] = next_tick(found["schedule"], now)
    if as_json:
        return json_out(found)
    return _print(found, now)


def obstacles(folder: Path, found: Row, now: float) -> Row:
    """What keeps from starting all that waits for nothing but the next run; nothing when nothing does.

    `host_busy`: why the host takes no worker. `refused`: why a run would not even begin.
    """
    wake = found["next_wake"]
    if not found["counts"].get("queued") and (wake is None or wake > now):
        return {}
    import os

    from dispatcher import host
    from dispatcher.config import require_trust, room

    try:
        needed = room.of(folder, os.environ)
        require_trust(folder)
    except DispatcherError as error:
        return {"refused": error.message}
    return {"host_busy": host.admission(needed, needed.paths(folder))}


def obstacle(found: Row) -> str | None:
    """The same in one clean line."""
    if found.get("refused"):
        return f"no run would begin now: {clean(found['refused'])}"
    return busy(clean(found["host_busy"])) if found.get("host_busy") else None


def _print(found: Row, now: float) -> None:
    counts: dict[str, int] = found["counts"]
    shown = [f"{counts[name]} {name}" for name in (*_ORDER, *sorted(set(counts) - set(_ORDER))) if counts.get(name)]
    gone = sum(row["gone"] for row in found["running"])
    if gone:
        whose = "its run is" if gone == counts["running"] == 1 else f"the run of {gone} is"
        shown[0] += f" ({whose} gone; the next `dispatcher run` goes on)"
    out(f"{clean(found['home'])}: {', '.join(shown) if shown else _nothing(found['home'])}")
    against = obstacle(found)
    if against:
        out(against)
    if found["next_wake"] is not None:
        out(f"next try {clock(found['next_wake'])} (in {duration(max(0.0, found['next_wake'] - now))})")
    if found["held"]:
        out(f"{plural(found['held'], 'task waits', 'tasks wait')} until you lift a hold (dispatcher release)")
    if found["last_run"] is not None:
        out(f"last run {ago(found['last_run']['at'], now)}, from {clean(found['last_run']['source'])}")
    if found["next_tick"] is not None:
        out(f"next run by cron {clock(found['next_tick'])} (in {duration(max(0.0, found['next_tick'] - now))})")
    _section("Running", found["running"], _running_columns(now))
    if "tasks" in found:
        _section("Tasks", found["tasks"], _PERSON_COLUMNS)
    else:
        _section("Needs a person", found["person"][:_MOST], _PERSON_COLUMNS)
        _more(len(found["person"]))
        _section("Ready for review", found["review"][:_MOST], _REVIEW_COLUMNS)
        _more(counts.get("needs_review", 0))
    _section("On hold", found["holds"], _HOLD_COLUMNS)
    _section("Last success", found["last_success"], _success_columns(now))


def _nothing(folder: str) -> str:
    from pathlib import Path

    return f"nothing queued yet ({home.next_step(Path(folder))})"


def _section(title: str, rows: list[Row], columns: list[Column]) -> None:
    if rows:
        out()
        table(rows, columns, title=title)


def _more(number: int) -> None:
    if number > _MOST:
        out(f"and {number - _MOST} more: dispatcher status --all")


def _running_columns(now: float) -> list[Column]:
    return [
        Column("id", "task", right=True),
        Column("candidate", "candidate"),
        Column("prompt", "prompt"),
        Column("since", "since", lambda at: ago(at, now)),
        Column("title", "title", wide=True),
    ]


def _success_columns(now: float) -> list[Column]:
    return [Column("candidate", "candidate"), Column("at", "last success", lambda at: ago(at, now), none="never")]


_PERSON_COLUMNS = [
    Column("id", "task", right=True),
    Column("status", "status"),
    Column("title", "title"),
    Column("reason", "reason", wide=True),
]


_REVIEW_COLUMNS = [
    Column("id", "task", right=True),
    Column("title", "title", wide=True),
    Column("branch", "branch", least=100),
]


_HOLD_COLUMNS = [
    Column("key", "held"),
    Column("scope", "scope", least=110),
    Column("until", "until", clock, none="a person lifts it"),
    Column("reason", "reason", wide=True),
]
