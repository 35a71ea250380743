"""What a signal leads to, as a table: kind, class, stated wait, is another candidate free -> end, or leave it."""

from __future__ import annotations

import pytest

from dispatcher.harness.base import Signal, SignalKind
from dispatcher.supervisor.reactions import End, Leave, react
from dispatcher.task import EndReason, HoldRequest, HoldScope, OutcomeClass

END = "end"
K = SignalKind
C = OutcomeClass


@pytest.mark.parametrize(
    ("kind", "outcome", "wait", "others", "what"),
    [
        # another candidate is free: leave at once, unless a stated wait fits in switch_after (5 s)
        (K.QUOTA, C.RATE_LIMITED, None, True, END),
        (K.QUOTA, C.RATE_LIMITED, 5.0, True, 5.0),
        (K.QUOTA, C.RATE_LIMITED, 5.1, True, END),
        (K.QUOTA, C.QUOTA_EXHAUSTED, None, True, END),
        (K.QUOTA, C.QUOTA_EXHAUSTED, 3600.0, True, END),
        (K.QUOTA, None, None, True, END),
        (K.RETRY, C.RATE_LIMITED, None, True, END),
        (K.RETRY, C.RATE_LIMITED, 2.0, True, 2.0),
        # nobody else: a short or unknown wait is the harness's business, a long one needs no process
        (K.QUOTA, C.RATE_LIMITED, None, False, 0.0),
        (K.QUOTA, C.RATE_LIMITED, 60.0, False, 60.0),
        (K.QUOTA, C.RATE_LIMITED, 61.0, False, END),
        (K.QUOTA, C.QUOTA_EXHAUSTED, None, False, END),
        (K.QUOTA, C.QUOTA_EXHAUSTED, 62056.0, False, END),
        # passing trouble is retried by the harness
        (K.RETRY, None, None, True, 0.0),
        (K.RETRY, C.OVERLOADED, 30.0, True, 30.0),
        (K.RETRY, C.NETWORK, None, True, 0.0),
        (K.RETRY, C.OVERLOADED, 1814400.0, False, END),
        (K.RETRY, C.UNKNOWN, None, True, 0.0),
        (K.RETRY, C.CONTEXT_OVERFLOW, 2.0, True, 2.0),
        # what no retry repairs
        (K.RETRY, C.AUTH, 0.5, False, END),
        (K.QUOTA, C.BILLING, None, False, END),
        (K.QUOTA, C.MODEL_NOT_FOUND, None, True, END),
    ],
)
def test_waits(kind: SignalKind, outcome: OutcomeClass | None, wait: float | None, others: bool, what: object) -> None:
    hold = HoldRequest(HoldScope.CANDIDATE, 7.0, "free limit")
    signal = Signal(kind, 0.0, "the line", outcome, hold, wait)
    answer = react(signal, others_free=others, switch_after=5.0)
    if what == END:
        assert isinstance(answer, End)
        assert answer.reason is EndReason.QUOTA
        assert answer.hold == hold
        assert answer.detail == "the line"
        assert answer.kind is (outcome or OutcomeClass.RATE_LIMITED)
    else:
        assert answer == Leave(what)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "reason", "outcome"),
    [
        (K.RUNAWAY, EndReason.RUNAWAY, C.RUNAWAY),
        (K.PERMISSION, EndReason.PERMISSION, C.PERMISSION_DENIED),
        (K.APPROVAL, EndReason.APPROVAL, C.AWAITING_APPROVAL),
        (K.MISMATCH, EndReason.MISMATCH, C.BILLING_MISMATCH),
    ],
)
def test_what_always_ends(kind: SignalKind, reason: EndReason, outcome: OutcomeClass) -> None:
    answer = react(Signal(kind, 0.0, "why"), others_free=False, switch_after=5.0)
    assert answer == End(reason, outcome, "why", None)


def test_a_mismatch_says_which() -> None:
    answer = react(Signal(K.MISMATCH, 0.0, "why", C.MODEL_MISMATCH), others_free=False, switch_after=5.0)
    assert isinstance(answer, End)
    assert answer.kind is C.MODEL_MISMATCH


@pytest.mark.parametrize("kind", [K.STARTED, K.PROGRESS, K.TOOL_STARTED, K.TOOL_ENDED, K.FINISHED, K.SESSION, K.MODEL])
def test_what_asks_for_nothing(kind: SignalKind) -> None:
    assert react(Signal(kind, 0.0, "x"), others_free=True, switch_after=5.0) is None
