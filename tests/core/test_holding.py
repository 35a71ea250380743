"""How long something stays on hold. 2026-03-18 12:00 UTC is noon."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.holding import Past, host_is_offline, is_mask, lengthen, masked, offline_wait, to_do, too_many_failures
from dispatcher.task import Billing, Candidate, Credential, HoldRequest, HoldScope, OutcomeClass

NOW = 1_773_835_200.0
MIDNIGHT = NOW + 12 * 3600
QUOTA, RATE = OutcomeClass.QUOTA_EXHAUSTED, OutcomeClass.RATE_LIMITED
CANDIDATE = Candidate("pickle", "opencode", "opencode/big-pickle", Credential("zen", Billing.FREE))


@pytest.mark.parametrize(
    ("kind", "after", "stated", "past", "until"),
    [
        (RATE, 60, False, Past(), 60),
        (RATE, 60, False, Past(1, 1), 900),
        (RATE, 60, False, Past(2, 2), 1800),
        (RATE, 60, False, Past(3, 3), 3600),
        (RATE, 60, False, Past(9, 9), 3600),
        (RATE, 60, False, Past(3, 0), 60),  # a success between
        (RATE, 7200, True, Past(3, 3), 7200),  # stated: believed
        (RATE, 30, True, Past(1, 1), 900),  # stated, and back although its reset is here
        (QUOTA, 3600, False, Past(), 3600),
        (QUOTA, 3600, False, Past(1, 1), 12 * 3600),
        (QUOTA, 3600, False, Past(1, 0), 12 * 3600),
        (QUOTA, 3600, False, Past(0, 1), 3600),  # yesterday
        (QUOTA, 18_000, True, Past(1, 1), 18_000),
        (QUOTA, 60, True, Past(1, 1), 900),  # it still shows its old reset: a pause that grows, and no whole day
        (QUOTA, 60, True, Past(2, 2), 1800),
        (QUOTA, 60, True, Past(5, 5), 3600),
        (QUOTA, 30 * 3600, False, Past(1, 1), 30 * 3600),  # never shorter
    ],
)
def test_lengthen(kind: OutcomeClass, after: float, stated: bool, past: Past, until: float) -> None:
    asked = HoldRequest(HoldScope.MODEL, NOW + after, "limit", "day", stated)
    assert lengthen(asked, kind, past, NOW).until == NOW + until


def test_a_parked_hold_says_so() -> None:
    parked = lengthen(HoldRequest(HoldScope.MODEL, NOW + 60, "limit"), QUOTA, Past(1, 1), NOW)
    assert parked.until == MIDNIGHT
    assert "until the next day" in parked.reason


def test_a_hold_for_a_person_stays_one() -> None:
    asked = HoldRequest(HoldScope.CREDENTIAL, None, "login")
    assert lengthen(asked, OutcomeClass.AUTH, Past(3, 3), NOW) is asked


@settings(max_examples=60)
@given(
    kind=st.sampled_from(OutcomeClass),
    after=st.floats(1, 8 * 86400),
    stated=st.booleans(),
    today=st.integers(0, 20),
    row=st.integers(0, 20),
)
def test_never_shorter_than_asked(kind: OutcomeClass, after: float, stated: bool, today: int, row: int) -> None:
    asked = HoldRequest(HoldScope.MODEL, NOW + after, "limit", None, stated)
    found = lengthen(asked, kind, Past(today, row), NOW)
    assert found.until is not None
    assert asked.until is not None
    assert found.until >= asked.until


@pytest.mark.parametrize(("row", "limit", "held"), [(4, 5, False), (5, 5, True), (9, 5, True), (9, 0, False)])
def test_failures_in_a_row(row: int, limit: int, held: bool) -> None:
    found = too_many_failures(CANDIDATE, row, limit)
    assert (found is not None) is held
    if found:
        assert (found.scope, found.until) == (HoldScope.CANDIDATE, None)
        assert "dispatcher release pickle" in found.reason


@pytest.mark.parametrize(
    ("kind", "harness", "words"),
    [
        (OutcomeClass.AUTH, "claude", "/login"),
        (OutcomeClass.AUTH, "opencode", "opencode auth login"),
        (OutcomeClass.AUTH, "scripted", "renew"),
        (OutcomeClass.BILLING, "claude", "add money"),
        (OutcomeClass.MODEL_NOT_FOUND, "opencode", "opencode models"),
        (OutcomeClass.BILLING_MISMATCH, "claude", "already charged"),
        (OutcomeClass.MODEL_MISMATCH, "opencode", "pin"),
    ],
)
def test_what_a_person_does(kind: OutcomeClass, harness: str, words: str) -> None:
    advice = to_do(kind, harness, "zen")
    assert words in advice
    assert advice.endswith("then: dispatcher release zen")


def test_other_classes_need_no_advice() -> None:
    assert to_do(OutcomeClass.RATE_LIMITED, "claude", "zen") == ""


def test_an_error_without_a_cause() -> None:
    """What the log explains is no mask, and neither is an ordinary 500: that one passes by itself."""
    assert is_mask(OutcomeClass.INTERNAL, "error.name UnknownError: Unexpected server error.")
    assert not is_mask(OutcomeClass.INTERNAL, "status 500: API Error: 500 Internal server error.")
    assert not is_mask(OutcomeClass.MODEL_NOT_FOUND, "error.name UnknownError: x")
    hold = masked(CANDIDATE)
    assert (hold.scope, hold.until) == (HoldScope.CANDIDATE, None)
    assert "check the model id opencode/big-pickle; then: dispatcher release pickle" in hold.reason


NETWORK = OutcomeClass.NETWORK


@pytest.mark.parametrize(
    ("last", "known", "offline"),
    [
        ({"a": (NETWORK, NOW - 30), "b": (NETWORK, NOW + 2)}, False, True),
        ({"a": (NETWORK, NOW - 90), "b": (NETWORK, NOW + 2)}, False, False),  # too long ago
        ({"a": (OutcomeClass.COMPLETED, NOW - 5), "b": (NETWORK, NOW + 2)}, False, False),
        ({"b": (NETWORK, NOW + 2)}, False, False),  # `a` was not tried
        ({"b": (NETWORK, NOW + 2)}, True, True),
    ],
)
def test_host_is_offline(last: dict[str, tuple[OutcomeClass, float]], known: bool, offline: bool) -> None:
    assert host_is_offline({"a", "b"}, last, NOW, known=known) is offline


def test_one_candidate_alone_proves_nothing() -> None:
    assert not host_is_offline({"a"}, {"a": (NETWORK, NOW)}, NOW, known=False)


def test_the_wait_grows() -> None:
    waits = [offline_wait(times) for times in range(6)]
    assert waits == sorted(waits)
    assert waits[0] == 60
    assert waits[-1] == waits[-2]
