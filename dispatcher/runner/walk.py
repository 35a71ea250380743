"""The walk of one task, from the claim until it rests. Read this first; every line has a room of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from dispatcher import approving, money, programs, quota, routing
from dispatcher.checks import Stopped
from dispatcher.errors import DispatcherError, InternalError
from dispatcher.runner import attempt as attempts
from dispatcher.runner import offline, questions, trouble
from dispatcher.runner.place import Busy, prepare
from dispatcher.runner.settings import Settings, settings_for
from dispatcher.runner.settle import describe, settle
from dispatcher.store import history, holds, queue
from dispatcher.supervisor import client, spec
from dispatcher.task import Attempt, Candidate, HoldScope, OutcomeClass, Status, Task

if TYPE_CHECKING:
    from dispatcher.runner.context import Context


ASKED_POLL = 0.5  # seconds between looks for calls that wait
STOP_POLL = 1.0  # seconds between looks, in a pause, whether the task still goes on
PROGRAM_AGAIN = 2.0  # seconds until a CLI that is not there is looked for once more


async def run_task(ctx: Context, task: Task) -> Task:
    """Take a claimed task as far as it goes without a person."""
    while goes_on(ctx, task):
        task = await step(ctx, task)
    if task.runs_under(ctx.owner) and not history.open_attempts(ctx.store, task.id):
        return queue.update(ctx.store, task.id, ctx.clock(), status=Status.QUEUED, event="the run was stopped")
    return task


async def recover(ctx: Context, task: Task) -> Task:
    """Go on with a task whose dispatcher died: adopt or settle its open attempt, then walk on."""
    for open_attempt in history.open_attempts(ctx.store, task.id):
        ctx.live[task.id] = Path(open_attempt.folder)
        ctx.say(task, open_attempt, "adopts what a dead run left")
        await attend(ctx, task, open_attempt, None)
        ctx.live.pop(task.id, None)
        task, delay = await settled(ctx, task, open_attempt)
        task = await pause(ctx, task, open_attempt, delay)
    return await run_task(ctx, task)


async def attend(ctx: Context, task: Task, attempt: Attempt, process: client.Launched) -> None:
    """Wait for the supervisor; tell of the calls that it holds meanwhile."""
    folder = Path(attempt.folder)
    async with anyio.create_task_group() as group:
        if gated(folder):
            group.start_soon(listen, ctx, task, attempt)
        await client.wait(folder, process)
        group.cancel_scope.cancel()


def gated(folder: Path) -> bool:
    try:
        return bool(spec.read(folder).gate)
    except InternalError:
        return False  # a crash before attempt.json was whole: no worker was started


async def listen(ctx: Context, task: Task, attempt: Attempt) -> None:
    """The question is on disk before the worker is told to wait; here it becomes a row and a message."""
    asked, seen = approving.folder_of(attempt) / f"{attempt.number}.asked", 0
    while True:
        size = asked.stat().st_size if asked.exists() else 0
        if size != seen:
            seen = size
            questions.collect(ctx, task, attempt)
        if ctx.config.approvals.expire is not None:
            approving.collect_all(ctx.store, ctx.config, ctx.clock())
        await anyio.sleep(ASKED_POLL)


async def settled(ctx: Context, task: Task, attempt: Attempt) -> tuple[Task, float]:
    """Settle, unless this run is stopped in the middle of the checks: then the next run finds it as after a crash."""
    try:
        return await settle(ctx, task, attempt)
    except Stopped:
        return queue.get(ctx.store, task.id), 0.0


def goes_on(ctx: Context, task: Task) -> bool:
    return task.runs_under(ctx.owner) and not ctx.stopping


async def step(ctx: Context, task: Task) -> Task:
    """One attempt, or the reason why there is none."""
    if task.next.settle is not None:
        return await settle_more(ctx, task, task.next.settle)
    try:
        settings = settings_for(ctx.config, task)
        spent = over_budget(ctx, task, settings)
        if spent is not None:
            return ask_person(ctx, task, spent)
        plan = await patient_route(ctx, task, settings)
        if not plan.choices:
            remember(ctx, task, plan, None)
            return rest(ctx, task, plan, settings.limits.max_wait)
        task, place = await prepare(ctx, task, settings)
        candidate = plan.choices[0].candidate
        started = await attempts.start(ctx, task, settings, candidate, place, others_free=len(plan.choices) > 1)
    except money.WrongMoney as wrong:
        return hold(ctx, task, candidate, describe(wrong))
    except Busy as busy:
        current = queue.get(ctx.store, task.id)
        return later(ctx, task, busy) if goes_on(ctx, current) else current
    except DispatcherError as wrong:
        if trouble.stops_the_run(wrong) is not None:
            raise
        current = queue.get(ctx.store, task.id)
        return ask_person(ctx, task, describe(wrong)) if goes_on(ctx, current) else current
    remember(ctx, task, plan, started.attempt)
    ctx.say(task, started.attempt, f"{task.next.prompt} prompt to {candidate.name} ({plan.choices[0].reason})")
    ctx.live[task.id] = Path(started.attempt.folder)
    try:
        await attend(ctx, task, started.attempt, started.process)
    finally:
        ctx.live.pop(task.id, None)
    task, delay = await settled(ctx, task, started.attempt)
    return await pause(ctx, task, started.attempt, delay)


async def settle_more(ctx: Context, task: Task, attempt_id: int) -> Task:
    """What is left of a settlement that was stopped. Its work is there, so no worker is started for it."""
    attempt = history.get_attempt(ctx.store, attempt_id)
    ctx.say(task, attempt, "its work is there: goes on at the checks")
    task, delay = await settled(ctx, task, attempt)
    return await pause(ctx, task, attempt, delay)


async def pause(ctx: Context, task: Task, attempt: Attempt, delay: float) -> Task:
    """The seconds before the next attempt; cut short when the run is stopped or the task taken away."""
    if delay and goes_on(ctx, task):
        delay = spread(delay, attempt.marker)
        ctx.say(task, attempt, f"waits {delay:.0f} s")
        with anyio.move_on_after(delay):
            while True:
                await anyio.sleep(STOP_POLL)
                if not goes_on(ctx, queue.get(ctx.store, task.id)):
                    break
    return queue.get(ctx.store, task.id)


def spread(delay: float, marker: str) -> float:
    """Up to half as long again: workers that met on one trouble at one moment must not meet there a second time."""
    return delay * (1.0 + int(marker[-4:], 16) / 0xFFFF / 2.0)


async def patient_route(ctx: Context, task: Task, settings: Settings) -> routing.Plan:
    """A CLI that is not there may just be replacing itself: a person is asked only when a second look says the same."""
    plan = route(ctx, task, settings)
    if plan.choices or plan.earliest is not None or not programs.missing(ctx.config, ctx.environ):
        return plan
    await anyio.sleep(PROGRAM_AGAIN)
    return route(ctx, task, settings)


def route(ctx: Context, task: Task, settings: Settings) -> routing.Plan:
    """The candidates that may run now. When each was tried in this walk, the walk begins anew: counters bound it."""
    now = ctx.clock()
    dead = offline.until(ctx)
    if dead is not None:
        return routing.Plan((), (), dead, offline.REASON)
    request = routing.Request(
        difficulty=task.difficulty,
        pinned=settings.brief.candidates,
        prefer=task.next.candidate,
        avoid=task.next.avoid,
        allowed_credentials=settings.credentials,
        missing_harnesses=programs.missing(ctx.config, ctx.environ),
        larger_window_than=overflowed_window(ctx, task),
    )
    active, spent = holds.active(ctx.store, now), history.spend(ctx.store, now)
    plan = routing.plan(request, ctx.config.roster, active, spent, now)
    if plan.choices or not request.avoid:
        return plan
    again = routing.plan(replace(request, avoid=()), ctx.config.roster, active, spent, now)
    return again if again.choices else plan


def over_budget(ctx: Context, task: Task, settings: Settings) -> str | None:
    """Why the brief's own budget allows no further attempt."""
    limits = settings.brief.budget
    if not any((limits.usd, limits.tokens, limits.attempts, limits.minutes)):
        return None
    return quota.over_total(limits, history.task_spend(ctx.store, task.id))


def hold(ctx: Context, task: Task, candidate: Candidate, reason: str) -> Task:
    """Nothing was started: this candidate is held until a person has changed something, the next one goes on."""
    words = f"{reason}; then: dispatcher release {candidate.name}"
    ctx.say(task, None, f"{candidate.name} is held: {reason}")
    holds.add(ctx.store, HoldScope.CANDIDATE, candidate.name, None, words, queue.BY, ctx.clock())
    return queue.update(ctx.store, task.id, ctx.clock(), owner=ctx.owner, event=f"{candidate.name} held: {words}")


def remember(ctx: Context, task: Task, plan: routing.Plan, attempt: Attempt | None) -> None:
    """Write down who was skipped and why: holds pass, and nobody could tell afterwards."""
    if not plan.skipped:
        return
    names = "; ".join(f"{skipped.name}: {skipped.reason}" for skipped in plan.skipped)
    data = {"reason": plan.reason, "skipped": [vars(skipped) for skipped in plan.skipped]}
    number = None if attempt is None else attempt.id
    with ctx.store.write(durable=False) as transaction:
        queue.write_event(
            transaction, task.id, ctx.clock(), "skipped", f"skipped {names}", attempt_id=number, data=data
        )


def overflowed_window(ctx: Context, task: Task) -> int | None:
    """The context window that the last attempt overflowed: larger ones come first."""
    done = [attempt for attempt in history.attempts(ctx.store, task.id) if attempt.ended_at is not None]
    if not done or done[-1].outcome is not OutcomeClass.CONTEXT_OVERFLOW:
        return None
    candidate = ctx.config.roster.candidates.get(done[-1].candidate)
    return candidate.context_window if candidate else None


def rest(ctx: Context, task: Task, plan: routing.Plan, max_wait: float) -> Task:
    """No candidate may run: wait for the earliest reset, or until a hold is lifted; a person is asked about this very
    task when neither can help. Who has waited for too long has lost its point."""
    reason, not_before, status = plan.reason, plan.earliest, Status.WAITING
    if plan.earliest is None:
        reason = plan.whole_reason
        if not plan.until_lifted:
            return ask_person(ctx, task, reason)
    since = queue.waits_since(ctx.store, task.id)
    if since is not None and ctx.clock() - since > max_wait:
        status, reason, not_before = Status.EXPIRED, f"waited longer than max_wait allows: {reason}", None
    ctx.say(task, None, f"waits: {reason}" if status is Status.WAITING else reason)
    return queue.update(
        ctx.store,
        task.id,
        ctx.clock(),
        owner=ctx.owner,
        event=reason,
        status=status,
        status_reason=reason,
        not_before=not_before,
    )


def later(ctx: Context, task: Task, busy: Busy) -> Task:
    """Another task has the checkout and goes on by itself: this one has its turn after that."""
    return queue.update(
        ctx.store,
        task.id,
        ctx.clock(),
        owner=ctx.owner,
        event=f"waits: {busy.message}",
        status=Status.WAITING,
        status_reason=busy.message,
        not_before=busy.until,
    )


def ask_person(ctx: Context, task: Task, reason: str) -> Task:
    ctx.say(task, None, f"needs a person: {reason}")
    return queue.update(
        ctx.store,
        task.id,
        ctx.clock(),
        owner=ctx.owner,
        event=reason,
        status=Status.NEEDS_HUMAN,
        status_reason=reason,
    )
