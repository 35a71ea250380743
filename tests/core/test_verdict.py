"""The verdict table, cell by cell, its bullets, and that nothing falls through it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.task import (
    Action,
    CheckResult,
    Checks,
    Commit,
    Counters,
    Difficulty,
    Evidence,
    Expect,
    HoldRequest,
    HoldScope,
    Limits,
    NextStep,
    Outcome,
    OutcomeClass,
    PromptKind,
    Shape,
    Verdict,
)
from dispatcher.verdict import BLOCKED, ENDED_EARLY, FINISHING, FRESH, PERSON, QUOTA, SHORT, Situation, judge

ONE = Commit("0123456789abcdef", "step 1 of 3")
EVIDENCE = {
    Shape.NOTHING: Evidence(),
    Shape.DIRTY: Evidence(dirty=("src/a.py",)),
    Shape.COMMITS: Evidence(commits=(ONE,)),
    Shape.COMMITS_DIRTY: Evidence(commits=(ONE,), dirty=("src/a.py",)),
}
HOLD = HoldRequest(HoldScope.MODEL, 100.0, "429")
PASS = Checks(True, (CheckResult("npm test", False, True, 0, 1.0),))
FAIL = Checks(True, (CheckResult("npm test", False, False, 1, 1.0, "2 failed"),))
HIDDEN = Checks(True, (CheckResult("secret/run.sh", True, False, 1, 1.0, "secret output"),))


def situation(kind: OutcomeClass, shape: Shape | Evidence = Shape.NOTHING, **fields: Any) -> Situation:
    outcome = Outcome(
        kind,
        "seen on stderr",
        positive=kind is OutcomeClass.COMPLETED,
        hold=HOLD if kind in QUOTA | BLOCKED else None,
        session_id="ses_1",
        final_text="Done.",
        tool_calls=3,
    )
    plain: dict[str, Any] = {
        "outcome": outcome,
        "evidence": EVIDENCE[shape] if isinstance(shape, Shape) else shape,
        "counters": Counters(starts=1),
        "limits": Limits(),
        "expect": Expect.COMMIT,
        "prompt": PromptKind.FIRST,
        "candidate": "sonnet",
        "session_id": "ses_1",
        "candidate_held": kind in QUOTA | BLOCKED,
    }
    return Situation(**(plain | fields))


SAME = ("sonnet", "ses_1", ())  # candidate, session, avoid of the next step
FRESH_SAME = ("sonnet", None, ())
NEXT = (None, None, ("sonnet",))
WALK = (None, None, ())  # the hold keeps the candidate out by itself
N, D, C, CD = Shape.NOTHING, Shape.DIRTY, Shape.COMMITS, Shape.COMMITS_DIRTY
Step = tuple[str | None, str | None, tuple[str, ...]]

TABLE: list[tuple[frozenset[OutcomeClass], dict[Shape, tuple[Action, Step | None]]]] = [
    (
        frozenset({OutcomeClass.COMPLETED}),
        {
            N: (Action.REDISPATCH, NEXT),
            D: (Action.FINISH, SAME),
            C: (Action.REVIEW, None),
            CD: (Action.FINISH, SAME),
        },
    ),
    (
        ENDED_EARLY - {OutcomeClass.LOST, OutcomeClass.EMPTY_OUTPUT, OutcomeClass.INTERNAL},
        {
            N: (Action.REDISPATCH, NEXT),
            D: (Action.FINISH, SAME),
            C: (Action.CONFIRM, SAME),
            CD: (Action.FINISH, SAME),
        },
    ),
    (
        frozenset({OutcomeClass.LOST}),
        {
            N: (Action.REDISPATCH, WALK),
            D: (Action.FINISH, SAME),
            C: (Action.CONFIRM, SAME),
            CD: (Action.FINISH, SAME),
        },
    ),
    (
        frozenset({OutcomeClass.STOPPED}),
        {
            N: (Action.REDISPATCH, WALK),
            D: (Action.CONTINUE, SAME),
            C: (Action.CONFIRM, SAME),
            CD: (Action.CONTINUE, SAME),
        },
    ),
    (
        frozenset({OutcomeClass.EMPTY_OUTPUT, OutcomeClass.INTERNAL}),
        {
            N: (Action.REDISPATCH, FRESH_SAME),
            D: (Action.FINISH, SAME),
            C: (Action.CONFIRM, SAME),
            CD: (Action.FINISH, SAME),
        },
    ),
    (
        QUOTA,
        {
            N: (Action.REDISPATCH, WALK),
            D: (Action.CONTINUE, WALK),
            C: (Action.CONFIRM, WALK),
            CD: (Action.FINISH, WALK),
        },
    ),
    (
        SHORT,
        {
            N: (Action.REDISPATCH, FRESH_SAME),
            D: (Action.FINISH, SAME),
            C: (Action.CONFIRM, SAME),
            CD: (Action.FINISH, SAME),
        },
    ),
    (
        FRESH,
        {
            N: (Action.REDISPATCH, NEXT),
            D: (Action.CONTINUE, NEXT),
            C: (Action.CONFIRM, FRESH_SAME),
            CD: (Action.FINISH, FRESH_SAME),
        },
    ),
    (
        BLOCKED,
        {
            N: (Action.REDISPATCH, NEXT),
            D: (Action.CONTINUE, NEXT),
            C: (Action.CONFIRM, NEXT),
            CD: (Action.FINISH, NEXT),
        },
    ),
    (PERSON, dict.fromkeys(Shape, (Action.NEEDS_HUMAN, None))),
    (
        frozenset({OutcomeClass.AWAITING_APPROVAL}),
        dict.fromkeys(Shape, (Action.AWAIT_APPROVAL, SAME)),
    ),
    (frozenset({OutcomeClass.CANCELLED}), dict.fromkeys(Shape, (Action.CANCEL, None))),
]
CELLS = [
    pytest.param(kind, shape, action, step, id=f"{kind.value}-{shape.value}")
    for kinds, row in TABLE
    for kind in sorted(kinds)
    for shape, (action, step) in row.items()
]


def test_the_table_holds_every_class() -> None:
    assert sorted(kind for kinds, _ in TABLE for kind in kinds) == sorted(OutcomeClass)


@pytest.mark.parametrize(("kind", "shape", "action", "step"), CELLS)
def test_table(kind: OutcomeClass, shape: Shape, action: Action, step: Step | None) -> None:
    verdict = judge(situation(kind, shape))
    assert verdict.action is action
    assert verdict.reason
    assert (verdict.next and (verdict.next.candidate, verdict.next.session_id, verdict.next.avoid)) == step
    if action in (Action.CANCEL, Action.NEEDS_HUMAN) and shape is CD:
        assert "0123456789 step 1 of 3" in verdict.reason
        assert "src/a.py" in verdict.reason


# --- completion ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(ENDED_EARLY | QUOTA | SHORT | FRESH | BLOCKED | {OutcomeClass.COMPLETED}))
def test_commits_and_clean_ask_for_the_checks_first(kind: OutcomeClass) -> None:
    before = situation(kind, C, has_checks=True, prompt=PromptKind.FINISH)
    verdict = judge(before)
    assert (verdict.action, verdict.next, verdict.counters) == (Action.CHECK, None, before.counters)
    assert judge(replace(before, checks=PASS)).action is Action.REVIEW


@pytest.mark.parametrize("shape", [N, D, CD])
def test_checks_do_not_run_on_work_that_is_not_committed(shape: Shape) -> None:
    for kind in OutcomeClass:
        assert judge(situation(kind, shape, has_checks=True)).action is not Action.CHECK


@pytest.mark.parametrize("prompt", sorted(PromptKind))
def test_who_was_stopped_is_never_taken_to_be_done(prompt: PromptKind) -> None:
    """Not by checks that pass, not as mere changes, not because it was only finishing; and it counts for nobody."""
    before = Counters(attempts=1, finish_attempts=1, starts=3, lost=1)
    for shape, expect in ((D, Expect.COMMIT), (C, Expect.COMMIT), (CD, Expect.COMMIT), (D, Expect.CHANGES)):
        verdict = judge(
            situation(OutcomeClass.STOPPED, shape, expect=expect, prompt=prompt, counters=before, has_checks=True)
        )
        kind = PromptKind.CONFIRM if shape is C else PromptKind.CONTINUE
        assert verdict.next == NextStep(kind, "sonnet", "ses_1"), (shape, expect)
        assert (verdict.counted, verdict.delay, verdict.counters) == (False, 0.0, replace(before, lost=0))
    hooked = Evidence(dirty=("a",), hook_output="lint: line 3")
    verdict = judge(situation(OutcomeClass.STOPPED, hooked, prompt=prompt))
    assert verdict.next is not None
    assert verdict.next.prompt is PromptKind.CONTINUE
    assert "lint: line 3" in verdict.next.note


def test_who_was_stopped_when_all_prompts_are_used_up_is_for_a_person() -> None:
    counters = Counters(finish_attempts=2, starts=4)
    assert judge(situation(OutcomeClass.STOPPED, C, counters=counters)).action is Action.NEEDS_HUMAN


def test_step_1_of_3_is_confirmed_and_then_flagged() -> None:
    """Without a positive result event, a commit may be a part only. Two prompts later a person reads it, flagged."""
    first = judge(situation(OutcomeClass.UNKNOWN, C))
    assert (first.action, first.counters.finish_attempts) == (Action.CONFIRM, 0)
    second = judge(situation(OutcomeClass.UNKNOWN, C, prompt=PromptKind.CONFIRM, counters=first.counters))
    assert (second.action, second.counters.finish_attempts) == (Action.CONFIRM, 1)
    third = judge(situation(OutcomeClass.UNKNOWN, C, prompt=PromptKind.CONFIRM, counters=second.counters))
    assert (third.action, third.flags, third.counters.finish_attempts) == (Action.REVIEW, ("unconfirmed",), 2)


def test_a_confirm_prompt_that_finds_nothing_left_completes_the_task() -> None:
    verdict = judge(situation(OutcomeClass.COMPLETED, C, prompt=PromptKind.CONFIRM))
    assert (verdict.action, verdict.flags) == (Action.REVIEW, ())


def test_said_done_changed_nothing() -> None:
    first = judge(situation(OutcomeClass.COMPLETED))
    assert first.next is not None
    assert (first.action, first.next.avoid, first.counters.idle_successes) == (Action.REDISPATCH, ("sonnet",), 1)
    second = judge(situation(OutcomeClass.COMPLETED, counters=first.counters, avoid=first.next.avoid))
    assert second.action is Action.NEEDS_HUMAN
    assert "said done, changed nothing" in second.reason
    assert not first.escalate


def test_only_ignored_files_are_named() -> None:
    verdict = judge(situation(OutcomeClass.COMPLETED, Evidence(ignored=("outputs/a.bin",))))
    assert "outputs/a.bin" in verdict.reason
    assert verdict.next is not None
    assert "outputs/a.bin" in verdict.next.note
    again = judge(situation(OutcomeClass.COMPLETED, Evidence(ignored=("outputs/a.bin",)), counters=verdict.counters))
    assert (again.action, again.next) == (Action.NEEDS_HUMAN, None), "no loop of redispatches"
    assert "changed nothing but files that git ignores (outputs/a.bin)" in again.reason


def test_an_empty_success_is_tried_once_more_on_the_same_candidate() -> None:
    empty = replace(situation(OutcomeClass.COMPLETED).outcome, final_text="", tool_calls=0)
    first = judge(situation(OutcomeClass.COMPLETED, outcome=empty))
    assert first.next is not None
    assert (first.action, first.next.candidate, first.next.avoid) == (Action.REDISPATCH, "sonnet", ())
    second = judge(situation(OutcomeClass.COMPLETED, outcome=empty, counters=first.counters))
    assert second.next is not None
    assert (second.action, second.next.candidate, second.next.avoid) == (Action.REDISPATCH, None, ("sonnet",))


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (OutcomeClass.COMPLETED, {"final_text": "I see no request. What would you like me to do?", "tool_calls": 0}),
        (OutcomeClass.INTERNAL, {"final_text": "", "tool_calls": 0}),
        (OutcomeClass.STALLED, {"never_started": True}),
    ],
)
def test_a_run_that_never_began_is_tried_once_more_on_the_same_candidate(
    kind: OutcomeClass, changed: dict[str, Any]
) -> None:
    """A CLI that lost its prompt, failed by itself or hung at its start does better the second time."""
    outcome = replace(situation(kind).outcome, **changed)
    first = judge(situation(kind, outcome=outcome))
    assert first.next is not None
    assert (first.action, first.next.candidate, first.next.avoid) == (Action.REDISPATCH, "sonnet", ())
    assert not (first.counted and outcome.never_started)
    second = judge(situation(kind, outcome=outcome, counters=first.counters))
    assert second.next is not None
    assert (second.action, second.next.candidate, second.next.avoid) == (Action.REDISPATCH, None, ("sonnet",))


def test_a_limit_of_the_run_says_nothing_against_the_model() -> None:
    for shape in Shape:
        assert not judge(situation(OutcomeClass.RUN_LIMIT, shape)).counted


# --- checks -------------------------------------------------------------------------------------------------------


def test_failing_checks_one_chance_one_escalation_then_a_person() -> None:
    plain: dict[str, Any] = {"has_checks": True, "checks": FAIL, "difficulty": Difficulty.EASY}
    first = judge(situation(OutcomeClass.COMPLETED, C, **plain))
    assert (first.action, first.escalate, first.counted) == (Action.CONTINUE, False, True)
    assert first.next is not None
    assert (first.next.candidate, first.next.session_id) == ("sonnet", "ses_1")
    assert "npm test" in first.next.note
    assert "2 failed" in first.next.note
    plain["prompt"] = PromptKind.CONTINUE
    second = judge(situation(OutcomeClass.COMPLETED, C, counters=first.counters, **plain))
    assert (second.action, second.escalate) == (Action.CONTINUE, True)
    assert second.next is not None
    assert (second.next.candidate, second.next.session_id, second.next.avoid) == (None, None, ("sonnet",))
    third = judge(situation(OutcomeClass.COMPLETED, C, counters=second.counters, **plain))
    assert third.action is Action.NEEDS_HUMAN
    assert "`npm test` failed" in third.reason
    assert third.counters.escalations == 1


@pytest.mark.parametrize("fields", [{"difficulty": Difficulty.HARD}, {"can_escalate": False}])
def test_without_a_harder_route_a_person_comes_second(fields: dict[str, Any]) -> None:
    counters = Counters(starts=2, check_failures=1)
    verdict = judge(situation(OutcomeClass.COMPLETED, C, has_checks=True, checks=FAIL, counters=counters, **fields))
    assert verdict.action is Action.NEEDS_HUMAN


def test_of_a_hidden_check_only_that_it_failed() -> None:
    verdict = judge(situation(OutcomeClass.COMPLETED, C, has_checks=True, checks=HIDDEN))
    assert verdict.next is not None
    assert verdict.next.note == "A hidden check failed."
    assert "secret" not in verdict.reason


def test_a_quota_event_over_failing_checks_is_no_quality_verdict() -> None:
    verdict = judge(situation(OutcomeClass.RATE_LIMITED, C, has_checks=True, checks=FAIL))
    assert (verdict.action, verdict.counted, verdict.escalate) == (Action.CONFIRM, False, False)
    assert verdict.counters == Counters(starts=1)


def test_a_check_that_was_red_before_is_not_blamed() -> None:
    red = Checks(True, (*PASS.results, CheckResult("lint", False, False, 1, 1.0, red_before=True)))
    verdict = judge(situation(OutcomeClass.COMPLETED, C, has_checks=True, checks=red))
    assert (verdict.action, verdict.flags) == (Action.REVIEW, ("red_before",))
    assert "failed before" in verdict.reason


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        (Checks(True, error="no space left"), "no space left"),
        (Checks(True, PASS.results, outside_touch=("src/evil.py",)), "src/evil.py"),
    ],
)
def test_checks_that_a_worker_cannot_repair(checks: Checks, words: str) -> None:
    verdict = judge(situation(OutcomeClass.COMPLETED, C, has_checks=True, checks=checks))
    assert verdict.action is Action.NEEDS_HUMAN
    assert words in verdict.reason


@pytest.mark.parametrize("prompt", sorted(FINISHING))
def test_checks_that_could_not_run_move_no_counter(prompt: PromptKind) -> None:
    """They are run again later, and this attempt must not count twice."""
    counters = Counters(finish_attempts=1, starts=2)
    broken = Checks(True, error="no space left")
    verdict = judge(
        situation(OutcomeClass.COMPLETED, C, has_checks=True, checks=broken, prompt=prompt, counters=counters)
    )
    assert verdict.counters == counters


# --- expect -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [D, C, CD])
def test_where_changes_are_expected_dirty_is_complete(shape: Shape) -> None:
    plain: dict[str, Any] = {"expect": Expect.CHANGES}
    assert judge(situation(OutcomeClass.COMPLETED, shape, **plain)).action is Action.REVIEW
    assert judge(situation(OutcomeClass.COMPLETED, shape, has_checks=True, **plain)).action is Action.CHECK
    assert judge(situation(OutcomeClass.UNKNOWN, shape, **plain)).action is Action.CONFIRM
    assert judge(situation(OutcomeClass.COMPLETED, N, **plain)).action is Action.REDISPATCH


def test_a_report_is_its_text_and_an_untouched_copy() -> None:
    assert judge(situation(OutcomeClass.COMPLETED, expect=Expect.REPORT)).action is Action.REVIEW
    for shape in (D, C, CD):
        for kind in (OutcomeClass.COMPLETED, OutcomeClass.RATE_LIMITED, OutcomeClass.UNKNOWN):
            verdict = judge(situation(kind, shape, expect=Expect.REPORT, has_checks=True))
            assert verdict.action is Action.NEEDS_HUMAN
            assert "a report must change nothing" in verdict.reason
    silent = replace(situation(OutcomeClass.COMPLETED).outcome, final_text=" ")
    assert judge(situation(OutcomeClass.COMPLETED, outcome=silent, expect=Expect.REPORT)).action is Action.REDISPATCH


# --- git's own troubles -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(set(OutcomeClass) - {OutcomeClass.CANCELLED, OutcomeClass.AWAITING_APPROVAL}))
@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(error="fatal: bad object HEAD"), "git_error: fatal: bad object HEAD"),
        (Evidence(error="the repository /r is gone", gone=True), "the repository /r is gone"),
        (Evidence(commits=(ONE,), rewritten=True), "0123456789 step 1 of 3"),
        (Evidence(elsewhere=("abc123 in /tmp/copy",)), "abc123 in /tmp/copy"),
    ],
)
def test_broken_evidence_is_never_run_again(kind: OutcomeClass, evidence: Evidence, words: str) -> None:
    verdict = judge(situation(kind, evidence))
    assert (verdict.action, verdict.next) == (Action.NEEDS_HUMAN, None)
    assert words in verdict.reason


def test_troubles_that_are_only_notes() -> None:
    evidence = Evidence(
        commits=(ONE,), stale_lock=".git/index.lock", detached=True, nested=("sub",), elsewhere=("abc in /x",)
    )
    verdict = judge(situation(OutcomeClass.COMPLETED, evidence))
    assert verdict.action is Action.REVIEW
    assert verdict.flags == ("commits_elsewhere", "detached", "nested_repository", "stale_lock")


def test_a_hook_that_refuses_gets_two_finish_prompts_and_is_then_named() -> None:
    evidence = Evidence(dirty=("a.py",), hook_output="husky - pre-commit: lint failed in a.py")
    counters = Counters(starts=1)
    prompt = PromptKind.FIRST
    for _ in range(2):
        verdict = judge(situation(OutcomeClass.COMPLETED, evidence, counters=counters, prompt=prompt))
        assert verdict.action is Action.FINISH
        assert verdict.next is not None
        assert "husky - pre-commit: lint failed" in verdict.next.note
        counters, prompt = verdict.counters, PromptKind.FINISH
    verdict = judge(situation(OutcomeClass.COMPLETED, evidence, counters=counters, prompt=prompt))
    assert verdict.action is Action.NEEDS_HUMAN
    assert "husky - pre-commit: lint failed" in verdict.reason


def test_a_hook_that_reformatted_and_then_let_the_commit_pass_is_no_trouble() -> None:
    evidence = Evidence(commits=(ONE,), hook_output="reformatted")
    assert judge(situation(OutcomeClass.COMPLETED, evidence)).action is Action.REVIEW


# --- denials ------------------------------------------------------------------------------------------------------


def denied(positive: bool, kind: OutcomeClass = OutcomeClass.PERMISSION_DENIED) -> Outcome:
    return Outcome(kind, "denied: rm", positive=positive, denials=("Bash rm -rf /",), final_text="x", tool_calls=1)


def test_a_denial_inside_of_a_completed_run_is_a_note() -> None:
    kind = OutcomeClass.PERMISSION_DENIED
    assert judge(situation(kind, C, outcome=denied(True))).action is Action.REVIEW
    assert judge(situation(kind, D, outcome=denied(True))).action is Action.FINISH
    assert judge(situation(kind, C, outcome=denied(False))).action is Action.NEEDS_HUMAN
    assert judge(situation(kind, N, outcome=denied(True))).action is Action.NEEDS_HUMAN


def test_a_success_that_was_denied_everything_needs_a_person() -> None:
    verdict = judge(situation(OutcomeClass.COMPLETED, outcome=denied(True, OutcomeClass.COMPLETED)))
    assert verdict.action is Action.NEEDS_HUMAN
    assert "Bash rm -rf /" in verdict.reason


# --- counters and caps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(QUOTA))
@pytest.mark.parametrize("prompt", list(PromptKind))
@pytest.mark.parametrize("shape", list(Shape))
def test_a_quota_event_moves_no_counter(kind: OutcomeClass, prompt: PromptKind, shape: Shape) -> None:
    before = Counters(attempts=4, finish_attempts=1, starts=9)
    verdict = judge(situation(kind, shape, prompt=prompt, counters=before, note="fix the lint"))
    assert (verdict.counters, verdict.counted, verdict.escalate) == (before, False, False)
    assert verdict.next is not None
    assert verdict.next.note == "fix the lint"


def test_a_quota_event_without_a_hold_is_remembered_by_the_walk() -> None:
    outcome = Outcome(OutcomeClass.RATE_LIMITED, "429")
    verdict = judge(situation(OutcomeClass.RATE_LIMITED, outcome=outcome, avoid=("opus",)))
    assert verdict.next == NextStep(avoid=("opus", "sonnet"))


@pytest.mark.parametrize("prompt", [PromptKind.FINISH, PromptKind.CONTINUE, PromptKind.CONFIRM])
def test_finish_attempts_are_bounded(prompt: PromptKind) -> None:
    last = judge(situation(OutcomeClass.STALLED, D, prompt=prompt, counters=Counters(finish_attempts=1, starts=3)))
    assert last.action is Action.NEEDS_HUMAN
    assert "2 of 2 finish attempts" in last.reason
    assert "src/a.py" in last.reason


def test_redispatches_are_bounded() -> None:
    counters = Counters(starts=1)
    for number in range(1, 5):
        verdict = judge(situation(OutcomeClass.UNKNOWN, counters=counters))
        assert (verdict.action, verdict.counters.attempts) == (Action.REDISPATCH, number)
        counters = verdict.counters
    verdict = judge(situation(OutcomeClass.UNKNOWN, counters=counters))
    assert verdict.action is Action.NEEDS_HUMAN
    assert "4 of 4 redispatches" in verdict.reason


@pytest.mark.parametrize("kind", sorted(SHORT))
def test_pauses_grow_are_counted_per_candidate_and_end_with_the_next_one(kind: OutcomeClass) -> None:
    counters = Counters(starts=1, backoffs={"opus": 3})
    delays = []
    for number in range(1, 4):
        verdict = judge(situation(kind, D, counters=counters))
        assert verdict.next is not None
        assert (verdict.next.candidate, verdict.next.session_id) == ("sonnet", "ses_1")
        assert verdict.counters.backoffs == {"opus": 3, "sonnet": number}
        assert not verdict.counted
        delays.append(verdict.delay)
        counters = verdict.counters
    assert delays == sorted(set(delays))
    assert 0 < delays[0] <= delays[-1] <= 60
    verdict = judge(situation(kind, D, counters=counters))
    assert verdict.next is not None
    assert (verdict.next.candidate, verdict.next.avoid, verdict.delay) == (None, ("sonnet",), 0.0)


def test_starts_cap_everything() -> None:
    for kind in sorted(QUOTA | SHORT | {OutcomeClass.LOST, OutcomeClass.UNKNOWN}):
        verdict = judge(situation(kind, D, counters=Counters(starts=15)))
        assert verdict.action is Action.NEEDS_HUMAN
        assert "15 of 15 starts" in verdict.reason


def test_a_finish_whose_candidate_is_held_goes_to_the_next_one() -> None:
    verdict = judge(situation(OutcomeClass.STALLED, D, candidate_held=True))
    assert verdict.next == NextStep(PromptKind.FINISH)


def test_lost_is_nobodys_failure() -> None:
    verdict = judge(situation(OutcomeClass.LOST, prompt=PromptKind.FINISH))
    assert (verdict.counted, verdict.counters) == (False, Counters(starts=1, lost=1))


@pytest.mark.parametrize(("before", "delay"), [(0, 0), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 32), (1000, 32)])
@pytest.mark.parametrize("shape", list(Shape))
def test_the_first_lost_attempt_is_made_good_at_once_and_each_further_one_later(
    shape: Shape, before: int, delay: float
) -> None:
    """All 15 starts lost in a row take 0+2+4+8+16+9*32 s, about 5 minutes, instead of some seconds."""
    verdict = judge(situation(OutcomeClass.LOST, shape, counters=Counters(starts=2, lost=before)))
    assert verdict.next is not None
    assert (verdict.delay, verdict.counters.lost) == (delay, before + 1)


@pytest.mark.parametrize("kind", sorted(set(OutcomeClass) - {OutcomeClass.LOST}))
def test_whatever_is_not_lost_ends_the_row_of_lost_attempts(kind: OutcomeClass) -> None:
    assert judge(situation(kind, D, counters=Counters(starts=2, lost=3))).counters.lost == 0


def test_a_second_quality_failure_escalates_once() -> None:
    verdict = judge(situation(OutcomeClass.TIMED_OUT, counters=Counters(attempts=1, starts=2)))
    assert (verdict.action, verdict.escalate, verdict.counters.escalations) == (Action.REDISPATCH, True, 1)
    verdict = judge(situation(OutcomeClass.TIMED_OUT, counters=verdict.counters, difficulty=Difficulty.EASY))
    assert not verdict.escalate


def test_names_that_utf8_cannot_carry_stay_readable() -> None:
    verdict = judge(situation(OutcomeClass.CANCELLED, Evidence(dirty=("caf\udce9\n\x1b[31m.txt",))))
    assert verdict.reason.encode("utf-8")
    assert verdict.reason.isprintable()


# --- nothing falls through ----------------------------------------------------------------------------------------

results = st.builds(
    CheckResult,
    st.just("make test"),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 1, None]),
    st.just(1.0),
    st.sampled_from(["", "boom\udcff" * 3]),
    st.booleans(),
)
some_checks = st.builds(
    Checks,
    st.booleans(),
    st.lists(results, max_size=3).map(tuple),
    st.sampled_from([(), ("x",)]),
    st.sampled_from([None, "no space"]),
)
some_evidence = st.builds(
    Evidence,
    commits=st.sampled_from([(), (ONE,), (ONE,) * 9]),
    dirty=st.sampled_from([(), ("a",), ("\udc80",) * 9]),
    rewritten=st.sampled_from([False, False, True]),
    detached=st.booleans(),
    elsewhere=st.sampled_from([(), (), ("abc in /x",)]),
    ignored=st.sampled_from([(), ("out",)]),
    hook_output=st.sampled_from([None, "", "hook: no" * 2000]),
    error=st.sampled_from([None, None, None, "fatal"]),
)
some_outcomes = st.builds(
    Outcome,
    st.sampled_from(OutcomeClass),
    st.sampled_from(["", "why"]),
    positive=st.booleans(),
    hold=st.sampled_from([None, HOLD]),
    final_text=st.sampled_from(["", "Done."]),
    denials=st.sampled_from([(), ("rm",)]),
    tool_calls=st.sampled_from([0, 2]),
)
some_limits = st.builds(
    Limits,
    attempts=st.integers(0, 4),
    finish_attempts=st.integers(0, 2),
    backoffs=st.integers(0, 3),
    starts=st.integers(1, 15),
)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Counters as they can be: what was started was allowed."""
    limits = draw(some_limits)
    prompt = draw(st.sampled_from(PromptKind))
    ran = 1 if prompt in (PromptKind.FINISH, PromptKind.CONTINUE, PromptKind.CONFIRM) else 0
    limits = replace(limits, finish_attempts=max(limits.finish_attempts, ran))
    counters = Counters(
        draw(st.integers(0, limits.attempts)),
        draw(st.integers(0, limits.finish_attempts - ran)),
        draw(st.integers(1, limits.starts)),
        draw(st.dictionaries(st.sampled_from(["sonnet", "opus"]), st.integers(0, limits.backoffs))),
        draw(st.integers(0, 1)),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 3)),
    )
    return Situation(
        draw(some_outcomes),
        draw(some_evidence),
        counters,
        limits,
        draw(st.sampled_from(Expect)),
        prompt,
        "sonnet",
        draw(st.sampled_from([None, "ses_1"])),
        draw(st.one_of(st.none(), some_checks)),
        draw(st.booleans()),
        draw(st.sampled_from(Difficulty)),
        draw(st.sampled_from([(), ("opus",), ("sonnet",)])),
        draw(st.booleans()),
        draw(st.sampled_from(["", "note"])),
        draw(st.booleans()),
    )


def check_next(s: Situation, verdict: Verdict) -> None:
    step = verdict.next
    starts = (Action.FINISH, Action.CONTINUE, Action.CONFIRM, Action.REDISPATCH)
    assert (step is not None) == (verdict.action in (*starts, Action.AWAIT_APPROVAL))
    if step is None or verdict.action is Action.AWAIT_APPROVAL:
        return
    assert s.counters.starts < s.limits.starts
    assert step.candidate is None or step.candidate == s.candidate
    assert step.session_id is None or (step.candidate == s.candidate and not s.candidate_held)
    assert step.candidate not in step.avoid
    assert len(step.note) <= 12_000
    if verdict.action is Action.REDISPATCH:
        assert step.prompt in (PromptKind.FIRST, PromptKind.APPROVED)
    else:
        assert step.prompt.value == verdict.action.value
        assert verdict.counters.finish_attempts < s.limits.finish_attempts


@given(situations())
@settings(max_examples=300, deadline=None)
def test_everything_has_a_verdict_with_a_reason_within_the_caps(s: Situation) -> None:
    verdict = judge(s)
    assert verdict.reason.strip()
    assert verdict.reason.encode("utf-8")
    check_next(s, verdict)
    after = verdict.counters
    assert after.attempts <= s.limits.attempts
    assert after.finish_attempts <= s.limits.finish_attempts
    assert after.starts == s.counters.starts
    assert all(used <= s.limits.backoffs for used in after.backoffs.values())
    assert after.escalations - s.counters.escalations == int(verdict.escalate)
    if verdict.escalate:
        assert s.counters.escalations == 0
        assert s.can_escalate
    if verdict.action is Action.CHECK:
        assert s.checks is None
        assert s.has_checks
        assert verdict.counters == s.counters
    if s.outcome.kind in QUOTA | {OutcomeClass.LOST, OutcomeClass.STOPPED}:
        assert not verdict.counted
        assert not verdict.escalate
        assert replace(verdict.counters, lost=0) == s.counters
    assert judge(s) == verdict
