"""Who may be used now, in which order, and why each other one not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.quota import Spend, Totals
from dispatcher.routing import Plan, Request, Roster, blocks, harder, hold_key, plan
from dispatcher.task import Billing, Budget, Candidate, Credential, Difficulty, Hold, HoldScope, Route

NOW = 1_773_835_200.0  # 2026-03-18 12:00 UTC
MIDNIGHT = NOW + 12 * 3600
ZEN = Credential("zen", Billing.FREE)
PLAN = Credential("max-plan", Billing.SUBSCRIPTION, budget=Budget(tokens={"day": 100}))
API = Credential("api", Billing.METERED)
ROSTER = Roster(
    {
        "pickle": Candidate("pickle", "opencode", "opencode/big-pickle", ZEN, per_day=2, context_window=100),
        "nemotron": Candidate("nemotron", "opencode", "opencode/nemotron:free", ZEN, context_window=300),
        "sonnet": Candidate("sonnet", "claude", "claude-sonnet-5-5", PLAN),
        "opus": Candidate("opus", "claude", "claude-opus-5-5", PLAN),
        "gpt": Candidate("gpt", "opencode", "openai/gpt", API),
    },
    {
        Difficulty.TRIVIAL: Route(("pickle", "nemotron")),
        Difficulty.EASY: Route(("nemotron", "pickle", "sonnet")),
        Difficulty.MEDIUM: Route(("sonnet",), free_first=True),
        Difficulty.HARD: Route(("opus", "sonnet", "gpt"), spill=True),
    },
)


def hold(scope: HoldScope, key: str, until: float | None = NOW + 60) -> Hold:
    return Hold(1, scope, key, until, "429", NOW, "dispatcher")


def walk(request: Request, *holds: Hold, spend: Spend | None = None, roster: Roster = ROSTER) -> Plan:
    return plan(request, roster, holds, spend or Spend(), NOW)


def names(found: Plan) -> list[str]:
    return [choice.candidate.name for choice in found.choices]


def reasons(found: Plan) -> dict[str, str]:
    return {skipped.name: skipped.reason for skipped in found.skipped}


TRIVIAL, HARD = Request(Difficulty.TRIVIAL), Request(Difficulty.HARD)


@pytest.mark.parametrize(
    ("request_", "holds", "chosen"),
    [
        (TRIVIAL, (), ["pickle", "nemotron"]),
        (TRIVIAL, (hold(HoldScope.CANDIDATE, "pickle"),), ["nemotron"]),
        (TRIVIAL, (hold(HoldScope.CANDIDATE, "pickle", NOW - 1),), ["pickle", "nemotron"]),  # over
        (TRIVIAL, (hold(HoldScope.MODEL, "zen/opencode/nemotron:free", None),), ["pickle"]),
        (TRIVIAL, (hold(HoldScope.CREDENTIAL, "zen"),), []),
        (TRIVIAL, (hold(HoldScope.PROVIDER, "opencode"),), []),
        (HARD, (hold(HoldScope.PROVIDER, "anthropic"),), ["gpt"]),
        (replace(TRIVIAL, avoid=("pickle",)), (), ["nemotron"]),
        (replace(TRIVIAL, prefer="nemotron"), (), ["nemotron", "pickle"]),
        (replace(TRIVIAL, prefer="nemotron"), (hold(HoldScope.CANDIDATE, "nemotron"),), ["pickle"]),
        (replace(TRIVIAL, prefer="opus"), (), ["pickle", "nemotron"]),  # other money
        (replace(TRIVIAL, prefer="gone"), (), ["pickle", "nemotron"]),
        (replace(TRIVIAL, larger_window_than=100), (), ["nemotron", "pickle"]),
        (replace(HARD, allowed_credentials=("api",)), (), ["gpt"]),
        (replace(HARD, missing_harnesses={"claude": "claude is not installed"}), (), ["gpt"]),
        (replace(TRIVIAL, pinned=("gpt", "pickle", "gpt")), (), ["gpt", "pickle"]),
        (Request(Difficulty.EASY), (), ["nemotron", "pickle"]),  # sonnet is other money and there is no spill
        (HARD, (), ["opus", "sonnet", "gpt"]),
    ],
)
def test_choices(request_: Request, holds: tuple[Hold, ...], chosen: list[str]) -> None:
    found = walk(request_, *holds)
    assert names(found) == chosen
    assert all(choice.reason for choice in found.choices)
    assert all(skipped.reason for skipped in found.skipped)


def test_every_skip_has_its_reason() -> None:
    found = walk(
        replace(HARD, avoid=("opus",), pinned=("opus", "sonnet", "gpt", "gone")), hold(HoldScope.CREDENTIAL, "api")
    )
    assert names(found) == ["sonnet"]
    assert reasons(found) == {
        "opus": "already tried in this walk",
        "gpt": "on hold (credential): 429",
        "gone": "no candidate of that name in models.yaml",
    }
    assert found.walked == ("opus",)


def test_all_held_says_when_it_goes_on() -> None:
    found = walk(
        TRIVIAL, hold(HoldScope.CANDIDATE, "pickle", NOW + 50), hold(HoldScope.CANDIDATE, "nemotron", NOW + 20)
    )
    assert (found.choices, found.earliest) == ((), NOW + 20)


def test_the_longest_of_several_reasons_counts() -> None:
    found = walk(TRIVIAL, hold(HoldScope.CREDENTIAL, "zen", NOW + 20), hold(HoldScope.PROVIDER, "opencode", NOW + 90))
    assert found.earliest == NOW + 90
    found = walk(TRIVIAL, hold(HoldScope.CREDENTIAL, "zen", NOW + 20), hold(HoldScope.PROVIDER, "opencode", None))
    assert found.earliest is None
    assert all(skipped.needs_person for skipped in found.skipped)


def test_a_daily_cap_ends_at_midnight_utc() -> None:
    found = walk(TRIVIAL, hold(HoldScope.CANDIDATE, "nemotron", None), spend=Spend({"pickle": 2}))
    assert (names(found), found.earliest) == ([], MIDNIGHT)
    assert reasons(found)["pickle"] == "2 of 2 attempts used today"


def test_a_budget_that_is_used_up_holds_both_candidates_of_the_credential() -> None:
    found = walk(HARD, spend=Spend(per_credential={"max-plan": {"day": Totals(tokens=100)}}))
    assert names(found) == ["gpt"]
    assert found.earliest == MIDNIGHT


def test_above_its_pace_routine_work_goes_to_the_free_list() -> None:
    fast = Spend(per_credential={"max-plan": {"day": Totals(tokens=80)}})
    assert names(walk(Request(Difficulty.MEDIUM), spend=fast)) == ["pickle", "nemotron", "sonnet"]
    assert names(walk(Request(Difficulty.MEDIUM))) == ["sonnet"]


def test_no_route_is_a_reason_and_no_wait() -> None:
    found = plan(TRIVIAL, Roster(), (), Spend(), NOW)
    assert (found.choices, found.earliest) == ((), None)
    assert "trivial" in found.reason


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        (HoldScope.CANDIDATE, "nemotron"),
        (HoldScope.MODEL, "zen/opencode/nemotron:free"),
        (HoldScope.CREDENTIAL, "zen"),
        (HoldScope.PROVIDER, "opencode"),
    ],
)
def test_hold_keys_block_their_own_candidate(scope: HoldScope, key: str) -> None:
    nemotron = ROSTER.candidates["nemotron"]
    assert hold_key(scope, nemotron) == key
    assert blocks(hold(scope, key), nemotron, NOW)
    assert not blocks(hold(scope, key + "x"), nemotron, NOW)
    assert not blocks(hold(scope, key, NOW), nemotron, NOW)


def test_a_harder_route_must_spend_the_same_money() -> None:
    assert harder(ROSTER, Difficulty.TRIVIAL) is Difficulty.EASY
    assert harder(ROSTER, Difficulty.EASY) is None  # from free to a subscription
    assert harder(ROSTER, Difficulty.MEDIUM) is Difficulty.HARD
    assert harder(ROSTER, Difficulty.HARD) is None


some_names = st.lists(st.sampled_from([*ROSTER.candidates, "gone"]), max_size=5).map(tuple)
some_holds = st.lists(
    st.builds(
        hold,
        st.sampled_from(HoldScope),
        st.sampled_from([*ROSTER.candidates, "zen", "max-plan", "api", "opencode", "anthropic", "api/openai/gpt"]),
        st.sampled_from([None, NOW - 5, NOW, NOW + 5]),
    ),
    max_size=4,
)
some_spend = st.builds(
    lambda today, tokens: Spend(today, {"max-plan": {"day": Totals(tokens=tokens)}}),
    st.dictionaries(st.just("pickle"), st.integers(0, 3)),
    st.sampled_from([0.0, 80.0, 100.0]),
)
some_requests = st.builds(
    Request,
    st.sampled_from(Difficulty),
    pinned=st.one_of(st.just(()), some_names),
    prefer=st.sampled_from([None, *ROSTER.candidates, "gone"]),
    avoid=some_names,
    allowed_credentials=st.sampled_from([None, (), ("zen",), ("zen", "max-plan")]),
    missing_harnesses=st.sampled_from([{}, {"claude": "not installed"}]),
    larger_window_than=st.sampled_from([None, 200]),
)


@given(some_requests, some_names, st.booleans(), some_holds, some_spend)
@settings(max_examples=400, deadline=None)
def test_never_offers_what_may_not_be_used(
    request: Request, route: tuple[str, ...], spill: bool, holds: list[Hold], spend: Spend
) -> None:
    roster = Roster(ROSTER.candidates, {request.difficulty: Route(route, spill=spill)})
    found = plan(request, roster, holds, spend, NOW)
    assert found.reason
    for choice in found.choices:
        chosen = choice.candidate
        assert choice.reason
        assert not any(blocks(item, chosen, NOW) for item in holds)
        assert chosen.name not in request.avoid
        assert chosen.harness not in request.missing_harnesses
        assert request.allowed_credentials is None or chosen.credential.name in request.allowed_credentials
        assert not (chosen.name == "pickle" and spend.per_candidate_today.get("pickle", 0) >= 2)
        assert not (chosen.credential is PLAN and spend.per_credential["max-plan"]["day"].tokens >= 100)
    if not request.pinned and not spill:
        assert len({choice.candidate.credential.billing for choice in found.choices}) <= 1
    seen = names(found) + [skipped.name for skipped in found.skipped]
    assert len(seen) == len(set(seen))
    assert found.earliest is None or found.earliest > NOW
