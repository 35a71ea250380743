"""`status`: what runs, what waits and until when, what needs a person, what is on hold."""

from __future__ import annotations

import time

from dispatcher.cli import home
from dispatcher.cli.render import Column, clean, json_out, out, table
from dispatcher.cli.wording import ago, clock, duration, until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from dispatcher.store import Store

Row = dict[str, "Any"]

_ORDER = ("running", "queued", "waiting", "awaiting_approval", "needs_human", "needs_review", "paused", "failed")
_PERSON = ("needs_human", "awaiting_approval", "failed")


def show_status(explicit: Path | None, *, as_json: bool) -> None:
    from dispatcher.config import database

    folder = home.find(explicit)
    now = time.time()
    if database(folder).exists():
        with home.opened(folder) as store:
            found = collect(store, folder, now)
    else:
        found = {"home": str(folder), "now": now, "counts": {}, "running": [], "person": [], "holds": [], "next_wake": None}
    if as_json:
        return json_out(found)
    return _print(found, now)


def collect(store: Store, folder: Path, now: float) -> Row:
    """Everything that `status` says, as plain values: the shape of `--json`."""
    from dispatcher.store import history, holds, queue
    from dispatcher.task import Status

    running = {attempt.task_id: attempt for attempt in history.open_attempts(store)}
    return {
        "home": str(folder),
        "now": now,
        "counts": {str(status): count for status, count in queue.counts(store).items()},
        "running": [
            {
                "id": task.id,
                "title": task.title,
                "candidate": running[task.id].candidate if task.id in running else None,
                "prompt": str(running[task.id].prompt) if task.id in running else None,
                "since": running[task.id].started_at if task.id in running else task.updated_at,
            }
            for task in queue.tasks(store, status=(Status.RUNNING,))
        ],
        "person": [
            {"id": task.id, "status": str(task.status), "title": task.title, "reason": task.status_reason}
            for task in queue.tasks(store, status=tuple(Status(name) for name in _PERSON))
        ],
        "holds": [
            {"id": hold.id, "scope": str(hold.scope), "key": hold.key, "until": hold.until, "reason": hold.reason}
            for hold in holds.active(store, now)
        ],
        "next_wake": queue.next_wake(store),
    }


def _print(found: Row, now: float) -> None:
    counts: dict[str, int] = found["counts"]
    shown = [f"{counts[name]} {name}" for name in (*_ORDER, *sorted(set(counts) - set(_ORDER))) if counts.get(name)]
    out(f"{clean(found['home'])}: {', '.join(shown) if shown else 'nothing queued yet (dispatcher add BRIEF)'}")
    if found["next_wake"] is not None:
        out(f"next try {clock(found['next_wake'])} (in {duration(max(0.0, found['next_wake'] - now))})")
    _section("Running", found["running"], _running_columns(now))
    _section("Needs a person", found["person"], _PERSON_COLUMNS)
    _section("On hold", found["holds"], _hold_columns(now))


def _section(title: str, rows: list[Row], columns: list[Column]) -> None:
    if rows:
        out()
        table(rows, columns, title=title)


def _running_columns(now: float) -> list[Column]:
    return [
        Column("id", "task", right=True),
        Column("candidate", "candidate"),
        Column("prompt", "prompt"),
        Column("since", "since", lambda at: ago(at, now)),
        Column("title", "title", wide=True),
    ]


_PERSON_COLUMNS = [
    Column("id", "task", right=True),
    Column("status", "status"),
    Column("title", "title"),
    Column("reason", "reason", wide=True),
]


def _hold_columns(now: float) -> list[Column]:
    return [
        Column("key", "held"),
        Column("scope", "scope"),
        Column("until", "until", lambda at: until(at, now), none=until(None, now)),
        Column("reason", "reason", wide=True),
    ]
