"""Calls that wait for a person: told once by the run that watches their worker, whoever wrote them down first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatcher import approving
from dispatcher.store import approvals

if TYPE_CHECKING:
    from dispatcher.runner.context import Context
    from dispatcher.task import Attempt, Task


def collect(ctx: Context, task: Task, attempt: Attempt) -> None:
    """Also at the end of the attempt: a worker may be gone before anybody has looked, and `dispatcher approvals` in
    another terminal may have looked before us."""
    approving.collect(ctx.store, ctx.config, attempt)
    for one in approvals.of_attempt(ctx.store, attempt.id):
        if one.status == "pending" and one.id not in ctx.told:
            ctx.told.add(one.id)
            ctx.say(task, attempt, f"a call waits for you: dispatcher approve {one.id}, or dispatcher deny {one.id}")
            ctx.asked(task, one)
