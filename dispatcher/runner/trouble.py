"""What cannot be settled as usual: a disk that is full, a host that gives out nothing more, an attempt whose worker
never came to be, an error of our own.

No attempt stays open for ever: a task with an open attempt is never claimed again.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from dispatcher.errors import OF_THE_HOST, DispatcherError, GitError, StoreError
from dispatcher.store import history, queue
from dispatcher.task import Attempt, OutcomeClass, Status, Task

if TYPE_CHECKING:
    from dispatcher.runner.context import Context

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOTHING_MORE = {**OF_THE_HOST, errno.EAGAIN: "raise the limit of processes (ulimit -u), or end some"}
_FULL_WORDS = ("No space left on device", "Disk quota exceeded")


def stops_the_run(error: BaseException) -> StoreError | None:
    """The error that ends a run rather than a task: nothing can be written down any more, or nothing be started."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(stops_the_run, error.exceptions)), None)
    full = isinstance(error, OSError) and error.errno in _FULL
    full = full or (isinstance(error, GitError) and any(words in error.stderr for words in _FULL_WORDS))
    if full:
        hint = "free some space and run again: what is unfinished goes on from its attempt folder"
        return StoreError(f"the disk is full: {error}", hint=hint)
    if isinstance(error, OSError) and error.errno in _NOTHING_MORE:
        return StoreError(f"nothing more can be started here: {error.strerror}", hint=_NOTHING_MORE[error.errno])
    return None if error.__cause__ is None else stops_the_run(error.__cause__)


def never_started(ctx: Context, attempt: Attempt, why: str) -> None:
    """Close the row of an attempt that has no process. When even that cannot be written, a later run closes it."""
    with suppress(StoreError):
        close(ctx, attempt, OutcomeClass.LOST, f"no worker was started: {why}")


def close(ctx: Context, attempt: Attempt, kind: OutcomeClass, reason: str, **task_fields: object) -> None:
    history.end_attempt(
        ctx.store,
        attempt.id,
        ctx.clock(),
        attempt_fields={"outcome": kind, "outcome_reason": reason},
        task_fields=task_fields,
        event=f"attempt {attempt.number} on {attempt.candidate}: {kind} ({reason})",
        owner=ctx.owner,
    )


def give_up(ctx: Context, task: Task, error: Exception) -> Task:
    """The task rests with what went wrong: `needs_human` when a person can mend it, `failed` when it is our fault."""
    known = isinstance(error, DispatcherError)
    reason = str(error) if known else f"our own error: {type(error).__name__}: {error}"
    status = Status.NEEDS_HUMAN if known else Status.FAILED
    ctx.say(task, None, reason)
    with ctx.store.write():
        for attempt in history.open_attempts(ctx.store, task.id):
            step = replace(queue.get(ctx.store, task.id).next, settle=attempt.id)  # it may hold finished work
            close(ctx, attempt, OutcomeClass.UNKNOWN, f"it could not be judged: {reason}", next=step)
        current = queue.get(ctx.store, task.id)
        if current.status is not Status.RUNNING:
            return current
        return queue.update(ctx.store, task.id, ctx.clock(), status=status, status_reason=reason, event=reason)
