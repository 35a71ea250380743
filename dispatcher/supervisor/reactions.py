"""What a signal of the harness leads to: the tree is ended, a wait is left to the harness, or nothing. Pure.

Who is asked to wait leaves at once when another candidate is free, unless the wait was *stated* and is short; no
statement means unknown, and both CLIs then sleep for minutes up to a night. With nobody else to go to, a short or
unknown wait is the harness's own business; a long one is better spent without a process.
"""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher.harness.base import Signal, SignalKind
from dispatcher.task import EndReason, HoldRequest, OutcomeClass

PATIENCE = 60.0  # a stated wait up to this long costs less than a new start, when nobody else is free
LONGEST_RETRY = 300.0  # a retry that is further away than this is a wait for a person or another day

WAITING_HELPS = frozenset({OutcomeClass.RATE_LIMITED, OutcomeClass.QUOTA_EXHAUSTED})
HOPELESS = frozenset(  # whatever is retried
    {OutcomeClass.AUTH, OutcomeClass.BILLING, OutcomeClass.BILLING_MISMATCH, OutcomeClass.MODEL_NOT_FOUND}
)

ENDS = {
    SignalKind.RUNAWAY: (EndReason.RUNAWAY, OutcomeClass.RUNAWAY),
    SignalKind.PERMISSION: (EndReason.PERMISSION, OutcomeClass.PERMISSION_DENIED),
    SignalKind.MISMATCH: (EndReason.MISMATCH, OutcomeClass.BILLING_MISMATCH),
    SignalKind.APPROVAL: (EndReason.APPROVAL, OutcomeClass.AWAITING_APPROVAL),
}


@dataclass(frozen=True)
class End:
    """End the tree, for this reason."""

    reason: EndReason
    kind: OutcomeClass | None
    detail: str
    hold: HoldRequest | None = None


@dataclass(frozen=True)
class Leave:
    """Leave the wait to the harness; `seconds` of it were stated."""

    seconds: float


def react(signal: Signal, *, others_free: bool, switch_after: float) -> End | Leave | None:
    """None: the signal asks for nothing."""
    if signal.kind in ENDS:
        reason, usual = ENDS[signal.kind]
        return End(reason, signal.outcome or usual, signal.text, signal.hold)
    if signal.kind not in (SignalKind.QUOTA, SignalKind.RETRY):
        return None
    usual = OutcomeClass.RATE_LIMITED if signal.kind is SignalKind.QUOTA else OutcomeClass.OVERLOADED
    outcome = signal.outcome or usual
    if outcome in WAITING_HELPS:
        stays = _worth_waiting(outcome, signal.wait, others_free, switch_after)
    elif signal.kind is SignalKind.RETRY and outcome not in HOPELESS:
        stays = signal.wait is None or signal.wait <= LONGEST_RETRY
    else:
        stays = False
    if stays:
        return Leave(signal.wait or 0.0)
    return End(EndReason.QUOTA, outcome, signal.text, signal.hold)


def _worth_waiting(outcome: OutcomeClass, wait: float | None, others_free: bool, switch_after: float) -> bool:
    if wait is None:
        return not others_free and outcome is OutcomeClass.RATE_LIMITED
    return wait <= (switch_after if others_free else max(switch_after, PATIENCE))
