"""What an ended attempt means for its candidate: which holds are placed, and what a run found out about who pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import harness, holding, quota, routing
from dispatcher.harness.base import BRIDGE_FILE, Channel, Signal, SignalKind, signals_of
from dispatcher.store import history, holds
from dispatcher.supervisor.transcript import blocks
from dispatcher.task import Attempt, Billing, Candidate, HoldRequest, HoldScope, Outcome, OutcomeClass, Verdict

if TYPE_CHECKING:
    from dispatcher.runner.context import Context

    AskedHold = tuple[HoldScope, str, float | None, str, str | None]  # scope, key, until, reason, window

BEYOND_PLAN = "paid beyond the plan, as the credential allows"

_MISMATCHES = (OutcomeClass.BILLING_MISMATCH, OutcomeClass.MODEL_MISMATCH)


# --- holds --------------------------------------------------------------------------------------------------------


def asked_holds(
    ctx: Context, attempt: Attempt, candidate: Candidate, outcome: Outcome, judged: Verdict, now: float
) -> list[AskedHold]:
    asked = [hold for hold in (_of_outcome(ctx, attempt, candidate, outcome, now),) if hold is not None]
    released = holds.last_release(ctx.store, HoldScope.CANDIDATE, candidate.name)
    if holding.is_mask(outcome.kind, outcome.proof):
        other = history.last_of_another_task(ctx.store, candidate.name, attempt.task_id, released)
        asked += [holding.masked(candidate)] if other is not None and holding.is_mask(*other) else []
    if judged.counted:
        limit = ctx.config.limits.failures_in_a_row
        before = history.failures_in_a_row(ctx.store, candidate.name, limit, released)
        failed = holding.too_many_failures(candidate, before + 1, limit)
        asked += [failed] if failed is not None else []
    return [
        (hold.scope, routing.hold_key(hold.scope, candidate), hold.until, hold.reason, hold.window) for hold in asked
    ]


def _of_outcome(
    ctx: Context, attempt: Attempt, candidate: Candidate, outcome: Outcome, now: float
) -> HoldRequest | None:
    hold = outcome.hold
    if hold is None:
        return None
    key = routing.hold_key(hold.scope, candidate)
    if hold.until is None:
        kind = OutcomeClass.BILLING_MISMATCH if outcome.kind is OutcomeClass.COMPLETED else outcome.kind
        advice = holding.to_do(kind, attempt.harness, key)
        return replace(hold, reason=f"{hold.reason}; {advice}") if advice else hold
    day = quota.bounds("day", now)[0]
    success = history.last_success(ctx.store).get(candidate.name, 0.0)
    past = holding.Past(
        today=holds.hits(ctx.store, hold.scope, key, day, before=attempt.started_at),
        in_a_row=holds.hits(ctx.store, hold.scope, key, max(now - holding.DAY, success), before=attempt.started_at),
    )
    return holding.lengthen(hold, outcome.kind, past, now)


# --- money --------------------------------------------------------------------------------------------------------


def compare(attempt: Attempt, candidate: Candidate | None, outcome: Outcome) -> Outcome:
    """What a run said about money and model, also when it was over before anybody could end it.

    Work that is complete stays complete, but its credential is held all the same; another model than the pinned one
    is a mismatch however well it ended.
    """
    if outcome.kind in _MISMATCHES or outcome.kind is OutcomeClass.CANCELLED:
        return outcome
    overage = candidate is not None and candidate.credential.overage
    seen = _mismatch(attempt, overage=overage)
    if seen is None and overage and attempt.billing is Billing.SUBSCRIPTION and _mismatch(attempt, overage=False):
        return replace(outcome, notes=(*outcome.notes, BEYOND_PLAN))
    if seen is None or seen.outcome is None:
        return outcome
    if outcome.positive and seen.outcome is OutcomeClass.BILLING_MISMATCH:
        note = f"it was complete when this was seen: {seen.text}"
        return replace(outcome, hold=seen.hold, notes=(*outcome.notes, note))
    return replace(outcome, kind=seen.outcome, reason=seen.text, proof=seen.text, positive=False, hold=seen.hold)


def _mismatch(attempt: Attempt, *, overage: bool) -> Signal | None:
    watch = harness.get(attempt.harness).watch(attempt.model, attempt.billing, overage=overage)
    folder = Path(attempt.folder)
    channels: tuple[tuple[Channel, str], ...] = (("bridge", BRIDGE_FILE), ("stdout", "stdout"))
    for channel, name in channels:
        for block in blocks(folder / name):
            for signal in signals_of(watch, channel, block, attempt.started_at):
                if signal.kind is SignalKind.MISMATCH:
                    return signal
    return None


def billed(attempt: Attempt, outcome: Outcome) -> float | None:
    """What the attempt was charged; unknown when other money than the credential's may have been spent."""
    other = outcome.kind is OutcomeClass.BILLING_MISMATCH or (
        outcome.hold is not None and outcome.kind is OutcomeClass.COMPLETED
    )
    return quota.billed(attempt.billing, outcome.usage.cost_usd, known=not other and BEYOND_PLAN not in outcome.notes)
