"""A person's word on tasks: end, stop, go on, try again.

The row is written first, then the worker is told: a `run` that is alive sees that the task no longer runs and goes no
further, and where no `run` is alive the supervisor ends the worker by itself. A later `run` closes the attempt.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.cli import home
from dispatcher.cli.render import clean, note, out
from dispatcher.errors import BadInput
from dispatcher.store import history, queue
from dispatcher.task import TRANSITIONS, Counters, NextStep, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dispatcher.store import Store
    from dispatcher.task import Task


def cancel_tasks(ids: Sequence[int], explicit: Path | None) -> None:
    def cancel(store: Store, task: Task, by: str) -> str:
        _move(store, task, Status.CANCELLED, f"cancelled by {by}", by)
        return "cancelled" + _tell_worker(store, task, "cancel", by)

    _each(ids, explicit, cancel)


def pause_tasks(ids: Sequence[int], explicit: Path | None) -> None:
    def pause(store: Store, task: Task, by: str) -> str:
        _move(store, task, Status.PAUSED, f"paused by {by}", by)
        return "paused" + _tell_worker(store, task, "stop", by)

    _each(ids, explicit, pause)


def resume_tasks(ids: Sequence[int], explicit: Path | None) -> None:
    def resume(store: Store, task: Task, by: str) -> str:
        if task.status is not Status.PAUSED:
            raise BadInput(f"task {task.id} is {task.status}, not paused", hint=_hint_for(task))
        _move(store, task, Status.QUEUED, f"resumed by {by}", by)
        return "queued again"

    _each(ids, explicit, resume)


def retry_tasks(ids: Sequence[int], explicit: Path | None) -> None:
    def retry(store: Store, task: Task, by: str) -> str:
        if task.status in (Status.QUEUED, Status.RUNNING, Status.PAUSED):
            raise BadInput(f"task {task.id} is {task.status}", hint=_hint_for(task))
        _move(store, task, Status.QUEUED, f"tried again by {by}", by, counters=Counters(), next=_next_of(task))
        return "queued again, counters at zero" + _where(task)

    _each(ids, explicit, retry)


def _where(task: Task) -> str:
    if task.copy_path is None:
        return ""
    there = Path(task.copy_path).is_dir()
    return f", goes on in {task.copy_path}" if there else f", in a new copy ({task.copy_path} is gone)"


def _each(ids: Sequence[int], explicit: Path | None, act: Callable[[Store, Task, str], str]) -> None:
    """Do it for every task; what fails for one is said and the others go on. Raises the last failure."""
    failed: BadInput | None = None
    with home.existing(explicit) as store:
        for number in dict.fromkeys(ids):
            try:
                task = queue.get(store, number)
                out(f"task {number}: {act(store, task, home.person())}  {clean(task.title)}")
            except BadInput as error:
                if failed is not None:
                    note(f"error: {clean(failed.message)}")
                failed = error
    if failed is not None:
        raise failed


def _move(store: Store, task: Task, status: Status, reason: str, by: str, **fields: Any) -> None:
    if status not in TRANSITIONS[task.status]:
        raise BadInput(f"task {task.id} is {task.status} and cannot become {status}", hint=_hint_for(task))
    queue.update(
        store,
        task.id,
        time.time(),
        status=status,
        status_reason=reason,
        event=reason,
        by=by,
        **fields,
    )


def _tell_worker(store: Store, task: Task, do: str, by: str) -> str:
    """Pass the word to the supervisors of attempts in flight; what to add to the line that the person reads."""
    from dispatcher.supervisor import client

    told = 0
    for attempt in history.open_attempts(store, task.id):
        client.send(Path(attempt.folder), {"do": do, "by": by})
        told += 1
    return "; its worker is being ended" if told else ""


def _next_of(task: Task) -> NextStep:
    """A fresh walk over the route: nothing was tried yet, but what the next prompt must do stays.

    Work that was never checked to its end goes on at its checks: no worker is started for it.
    """
    return NextStep(prompt=task.next.prompt, note=task.next.note, settle=task.next.settle)


def _hint_for(task: Task) -> str:
    match task.status:
        case Status.PAUSED:
            return f"dispatcher resume {task.id}, or dispatcher cancel {task.id}"
        case Status.RUNNING:
            return f"dispatcher tail -f {task.id}, or dispatcher cancel {task.id}"
        case Status.QUEUED:
            return "dispatcher run"
        case _:
            return f"dispatcher retry {task.id}"
