"""No network on this host: noticed when every candidate fails on it together, remembered for the whole home.

Nobody is punished for it: no counter moves, no candidate is held; every task waits a little and then one of them tries.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from dispatcher import holding, routing
from dispatcher.store import history, holds, queue
from dispatcher.task import Attempt, NextStep, Outcome, OutcomeClass, Task, Verdict

if TYPE_CHECKING:
    from dispatcher.runner.context import Context
    from dispatcher.runner.settings import Settings

REASON = "every candidate failed on the network: this host seems to be offline"

_KEY = "offline"  # meta: {"until": epoch, "times": how often it was found dead without anything else between}
_FRESH = 15 * 60.0  # after the end of a wait, one failure still says the same


def until(ctx: Context) -> float | None:
    """When the network is tried again; None when it is not known to be dead."""
    ends, _ = _known(ctx)
    return ends if ends > ctx.clock() else None


def notice(ctx: Context, task: Task, attempt: Attempt, settings: Settings, outcome: Outcome) -> float | None:
    """Look at one ended attempt. When the host is offline: until when everything waits."""
    if outcome.kind is not OutcomeClass.NETWORK:
        if outcome.positive:
            ctx.store.set_meta(_KEY, "")
        return None
    now, (ends, times) = ctx.clock(), _known(ctx)
    usable = _usable(ctx, task, settings) | {attempt.candidate}
    last = history.last_ends(ctx.store, usable) | {attempt.candidate: (outcome.kind, now)}
    known = ends > 0 and now < ends + _FRESH
    if not holding.host_is_offline(usable, last, attempt.started_at, known=known):
        return None
    if ends > now:  # another worker of the same dead network has noticed it
        return ends
    ends = now + holding.offline_wait(times if known else 0)
    ctx.store.set_meta(_KEY, json.dumps({"until": ends, "times": times + 1 if known else 1}))
    return ends


def unpunished(ctx: Context, task: Task, attempt: Attempt, judged: Verdict) -> Verdict:
    """The same step again later, with the counters from before this attempt."""
    before = queue.get(ctx.store, task.id).counters
    counters = replace(before, starts=max(0, before.starts - 1), backoffs={})
    prompt = judged.next.prompt if judged.next is not None else task.next.prompt
    step = judged.next if judged.next is not None and judged.next.candidate == attempt.candidate else None
    return replace(
        judged,
        reason=REASON,
        next=step or NextStep(prompt=prompt, avoid=task.next.avoid, note=task.next.note),
        counters=counters,
        counted=False,
        delay=0.0,
        escalate=False,
    )


def _known(ctx: Context) -> tuple[float, int]:
    found = json.loads(ctx.store.get_meta(_KEY) or "{}")
    return float(found.get("until", 0.0)), int(found.get("times", 0))


def _usable(ctx: Context, task: Task, settings: Settings) -> set[str]:
    """The candidates that this task may use now: those that are held cannot show anything."""
    roster, now = ctx.config.roster, ctx.clock()
    route = roster.routes.get(task.difficulty)
    names = settings.brief.candidates or (route.candidates if route else ())
    active = holds.active(ctx.store, now)
    return {
        name
        for name in names
        if name in roster.candidates and not any(routing.blocks(hold, roster.candidates[name], now) for hold in active)
    }
