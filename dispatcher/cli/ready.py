"""`ready`: what can run now, and what each other task waits for."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dispatcher import host, scheduler
from dispatcher.cli import home
from dispatcher.cli.render import Column, clean, form, note, table
from dispatcher.cli.wording import busy, until
from dispatcher.store import queue
from dispatcher.task import Status

if TYPE_CHECKING:
    from pathlib import Path

    from dispatcher.runner.foresight import PlannedTask
    from dispatcher.store import Store
    from dispatcher.task import Task

_ON_ITS_WAY = frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING})

COLUMNS = (
    Column("id", "task", right=True),
    Column("state", "state"),
    Column("why", "why", wide=True),
    Column("title", "title", wide=True),
)


def show_ready(explicit: Path | None, *, as_json: bool, as_csv: bool) -> None:
    from dispatcher.config import logs_dir
    from dispatcher.runner import foresight

    config = home.configured(explicit)
    now, logs = time.time(), logs_dir(config.home)
    against = host.admission(config.limits, scheduler.writing(config, logs))
    with home.existing(explicit, reading=True) as store:
        rows = [_row(store, planned, now) for planned in foresight.plan(config, store, logs, now, os.environ)]
    _hold_back(rows, against)
    rows.sort(key=lambda row: row["state"] != "ready")  # stable: by number within
    table(rows, COLUMNS, form=form(as_json=as_json, as_csv=as_csv), empty="nothing is queued")


def _hold_back(rows: list[dict[str, Any]], against: str | None) -> None:
    """What only the host keeps from starting says so. `against`: why the host takes no worker now."""
    for row in rows:
        row["host_busy"] = against if row["state"] == "ready" else None
        if row["host_busy"]:
            row["why"] += ", once the host is free"
    if against and any(row["host_busy"] for row in rows):
        note(busy(clean(against)))


def waits_for(store: Store, task_id: int) -> list[str]:
    """One sentence for each task that this one still waits for; a failed one is named with its reason."""
    return [_sentence(store, blocker) for blocker in queue.blockers(store, task_id)]


def _sentence(store: Store, blocker: queue.Blocker) -> str:
    needed = queue.get(store, blocker.task_id)
    if needed.status in _ON_ITS_WAY:
        return f"waits for task {needed.id} ({needed.status})"
    if needed.status is Status.NEEDS_REVIEW:
        return f"waits for task {needed.id} to be accepted (dispatcher review {needed.id})"
    return f"task {needed.id}, which it comes after, is {needed.status}: {needed.status_reason}"


def _row(store: Store, planned: PlannedTask, now: float) -> dict[str, Any]:
    task, plan = planned.task, planned.plan
    blocked = waits_for(store, task.id)
    if blocked:
        state, why = "blocked", "; ".join(blocked)
    elif task.not_before is not None and task.not_before > now:
        state, why = "waiting", f"{task.status_reason or plan.reason}, {until(task.not_before, now)}"
    elif task.next.settle is not None:
        return _line(store, task, "ready", plan.reason, None)
    elif not plan.choices and plan.earliest is None and not plan.walked:
        state, why = "waiting" if plan.until_lifted else "refused", plan.whole_reason
    elif not plan.choices:
        when = f", {until(plan.earliest, now)}" if plan.earliest is not None else ""
        state, why = "waiting", plan.reason + when
    elif not planned.choices:
        state, why = "refused", "; ".join(f"{one.candidate}: {one.reason}" for one in planned.refusals)
    else:
        name = planned.choices[0].candidate.name
        return _line(store, task, "ready", f"would go to {name}", name)
    return _line(store, task, state, why, None)


def _line(store: Store, task: Task, state: str, why: str, candidate: str | None) -> dict[str, Any]:
    return {
        "id": task.id,
        "state": state,
        "why": why,
        "title": task.title,
        "status": str(task.status),
        "batch": task.batch,
        "candidate": candidate,
        "needs": [blocker.task_id for blocker in queue.blockers(store, task.id)],
    }
