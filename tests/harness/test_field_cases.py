"""Stories from the field, from the bytes that a CLI printed to the verdict: what the run was, and what happens next.

The numbers in the names count the same stories as in tests/repository and tests/e2e.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatcher.harness import get
from dispatcher.harness.base import SignalKind
from dispatcher.routing import hold_key
from dispatcher.task import (
    Action,
    Billing,
    Candidate,
    Commit,
    Counters,
    Credential,
    EndReason,
    Evidence,
    Expect,
    HoldScope,
    Limits,
    Outcome,
    OutcomeClass,
    PromptKind,
    Verdict,
)
from dispatcher.verdict import Situation, judge

from ..core.test_failures import OVERFLOWS, TEXTS
from .captures import NOW, read
from .test_read import CALLS, GOOD, STEP, STOP, TEXT, claude, ended, exited, failure, final, opencode
from .test_watch import api_retry, assistant, bridge, event, init, limits, result, tool, use, watch

O = OutcomeClass  # noqa: E741
NOTHING = Evidence()
DIRTY = Evidence(dirty=("src/a.py",))
COMMITTED = Evidence(commits=(Commit("0123456789abcdef", "the work"),))


def verdict(outcome: Outcome, evidence: Evidence = NOTHING, **fields: Any) -> Verdict:
    known: dict[str, Any] = {
        "counters": Counters(starts=1),
        "limits": Limits(),
        "expect": Expect.COMMIT,
        "prompt": PromptKind.FIRST,
        "candidate": "one",
        "session_id": outcome.session_id,
        "candidate_held": outcome.hold is not None,
    }
    return judge(Situation(outcome, evidence, **{**known, **fields}))


def then(outcome: Outcome, evidence: Evidence = NOTHING, **fields: Any) -> tuple[Action, str | None, tuple[str, ...]]:
    """Action, candidate and those to avoid of what follows."""
    found = verdict(outcome, evidence, **fields)
    return (found.action, *((found.next.candidate, found.next.avoid) if found.next else (None, ())))


# --- claude: a result is not what its subtype says ----------------------------------------------------------------


def test_1_a_rate_limit_inside_of_a_success() -> None:
    """Exit 0, subtype success, and only is_error tells. No reset is known, so the hold is a short guess."""
    outcome = claude(
        init(), final(is_error=True, result="API Error: Rate limit reached", duration_api_ms=0, num_turns=1)
    )
    assert (outcome.kind, outcome.positive) == (O.RATE_LIMITED, False)
    assert outcome.hold is not None
    assert (outcome.hold.stated, outcome.hold.until) == (False, NOW + 60)
    assert then(outcome) == (Action.REDISPATCH, None, ())


def test_2_a_right_that_was_lost_after_a_night_of_work() -> None:
    """The commits of 484 turns are there: another provider finishes them, and this one waits for a person."""
    text = "Your organization has disabled Claude subscription access for Claude Code"
    message = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    synthetic = {
        "type": "assistant",
        "message": message,
        "error": "oauth_org_not_allowed",
        "is_api_error_message": True,
    }
    last = final(is_error=True, terminal_reason="api_error", api_error_status=403, result=text, num_turns=484)
    outcome = claude(init(), json.dumps(synthetic).encode(), last)
    assert outcome.hold is not None
    assert (outcome.kind, outcome.hold.scope, outcome.hold.until) == (O.AUTH, HoldScope.CREDENTIAL, None)
    both = replace(COMMITTED, dirty=DIRTY.dirty)
    assert then(outcome, both) == (Action.FINISH, None, ("one",))


@pytest.mark.parametrize("denials", [[], [{"tool_name": "Write", "tool_input": {"file_path": "a.py"}}]])
def test_3_a_denied_tool_in_a_full_success(denials: list[object]) -> None:
    outcome = claude(init(), assistant(1, use(1, "x")), result(1, True), final(permission_denials=denials))
    found = verdict(outcome)
    assert found.action is not Action.REVIEW
    if denials:
        assert found.action is Action.NEEDS_HUMAN
        assert found.reason.startswith("permission_denied")
        assert "Write: a.py" in found.reason


@pytest.mark.parametrize(
    "fields",
    [
        {"num_turns": 0, "result": "", "duration_api_ms": 0},
        {"num_turns": 1, "result": "There is no task in your message. What shall I work on?"},
    ],
)
def test_4_and_5_a_run_that_never_saw_its_prompt(fields: dict[str, object]) -> None:
    """It works when it is simply started again; a model is not to blame the first time."""
    outcome = claude(init(), final(**fields))
    first = verdict(outcome)
    assert first.next is not None
    assert (first.action, first.next.candidate) == (Action.REDISPATCH, "one")
    assert then(outcome, counters=first.counters) == (Action.REDISPATCH, None, ("one",))


@pytest.mark.parametrize("stdout", [(), (b"",), (b"\x1b[0m", b"loading...")])
def test_6_no_event_that_can_be_read(stdout: tuple[bytes, ...]) -> None:
    for outcome in (claude(*stdout), opencode(*stdout)):
        assert (outcome.kind, outcome.positive) == (O.EMPTY_OUTPUT, False)
        assert then(outcome)[0] is Action.REDISPATCH


def test_7_cut_off_in_the_middle_of_a_tool_call() -> None:
    outcome = claude(init(), assistant(1, use(1, "make")), final(stop_reason="tool_use", num_turns=9))
    assert not outcome.positive
    assert then(outcome) == (Action.REDISPATCH, None, ("one",))
    assert then(outcome, DIRTY) == (Action.FINISH, "one", ())
    assert then(outcome, COMMITTED) == (Action.CONFIRM, "one", ()), "what is committed may be a part"


@pytest.mark.parametrize(
    "text", ["You've hit your limit \u00b7 resets some day", "You've hit your limit \u00b7 resets 2pm (Asia/Shanghai)"]
)
def test_9_the_event_knows_the_reset_whatever_the_text_says(text: str) -> None:
    event = limits(status="rejected", resetsAt=NOW + 4321, rateLimitType="five_hour", isUsingOverage=False)
    last = final(is_error=True, api_error_status=429, result=text)
    outcome = claude(init(), event, last, exit=exited(1))
    assert outcome.hold is not None
    assert (outcome.kind, outcome.hold.until, outcome.hold.stated) == (O.QUOTA_EXHAUSTED, NOW + 4321, True)
    assert then(outcome) == (Action.REDISPATCH, None, ())
    [seen] = [s for s in watch("claude", billing=Billing.SUBSCRIPTION).feed("stdout", event, NOW) if s.hold]
    assert (seen.kind, seen.hold and seen.hold.until) == (SignalKind.QUOTA, NOW + 4321)


@pytest.mark.parametrize(
    "info",
    [
        {"status": "allowed", "resetsAt": NOW + 60, "rateLimitType": "five_hour"},
        {"status": "allowed_warning", "rateLimitType": "seven_day_something_new", "utilization": 0.9},
        {"status": "allowed", "unifiedWindows": {"five_hour": {"utilization": 1}}},
        {"status": "a_new_word"},
    ],
)
def test_10_information_about_a_limit_is_no_limit(info: dict[str, Any]) -> None:
    stdout = [init(), limits(**info), assistant(1, use(1, "ls")), result(1, False), final()]
    outcome = claude(*stdout)
    assert (outcome.positive, outcome.hold) == (True, None)
    live = watch("claude", billing=Billing.SUBSCRIPTION)
    assert not [s for line in stdout for s in live.feed("stdout", line, NOW) if s.outcome or s.hold]
    assert claude(*stdout[:-1], exit=exited(None, 9)).kind is O.KILLED, "nor does it explain another end"


DAY = datetime(2026, 11, 29, tzinfo=UTC).timestamp()
HOUR, MINUTE = 3600.0, 60.0

# What a limit says at 13:46:40 UTC on Sunday, 29 November 2026 -> the end of the hold.
SAID = [
    (f"Claude AI usage limit reached|{NOW + 999:.0f}", NOW + 999),
    (f"Claude AI usage limit reached and won't reset|{NOW + 999:.0f}", NOW + 999),
    ("Claude usage limit reached. Your limit will reset \n     at 3pm (America/Santiago).", DAY + 18 * HOUR),
    ("5-hour limit reached \u2219 resets 11pm", DAY + 23 * HOUR),
    ("Session limit reached \u00b7 resets 11pm", DAY + 23 * HOUR),
    ("Session limit reached - resets 11pm", DAY + 23 * HOUR),
    ("You've hit your session limit \u00b7 resets 4:10am", DAY + 28 * HOUR + 10 * MINUTE),
    ("You\u2019ve hit your session limit \u00b7 resets 5:20am (America/Denver)\n/usage-credits to finish what "
     "you\u2019re on.", DAY + 36 * HOUR + 20 * MINUTE),
    ("Weekly limit reached \u00b7 resets Dec 2, 7pm (Europe/Moscow) \u00b7", DAY + 3 * 24 * HOUR + 16 * HOUR),
    ("You've hit your weekly limit \u00b7 resets Dec 1 at 4:30am (Asia/Calcutta)", DAY + 47 * HOUR),
    ("Weekly limit reached \u00b7 resets 10am (Asia/Seoul) \u00b7 /upgrade to Max", DAY + 25 * HOUR),
    ("Opus weekly limit reached \u2219 resets Dec 3", DAY + 4 * 24 * HOUR),
    ("Opus weekly limit reached \u2219 resets Nov 29", DAY + 24 * HOUR),  # today: its end
    ("You've hit your limit \u00b7 resets 1:30pm (UTC)", NOW + MINUTE),  # just passed: soon, not tomorrow
    ("You've hit your usage limit. Upgrade or try again in 2 days 17 hours 14 minutes.",
     NOW + 65 * HOUR + 14 * MINUTE),
    ("You've hit your usage limit. Upgrade or try again at Dec 3rd, 2026 4:15 AM.",
     DAY + 4 * 24 * HOUR + 4 * HOUR + 15 * MINUTE),
    ("Free usage exceeded, subscribe to Go [retrying in 17h 42m attempt #1]", NOW + 17 * HOUR + 42 * MINUTE),
    ("5 hour usage limit reached. It will reset in 5 hours 23 minutes. To continue using this model now, pay",
     NOW + 5 * HOUR + 23 * MINUTE),
    ("Weekly usage limit reached. It will reset in 1 day 3 hours.", NOW + 27 * HOUR),
    ("5 hour usage limit reached. It will reset in less than a minute.", NOW + MINUTE),
    ("quota exceeded for requests per day. It will reset at 2026-11-30 16:11:46 +0800 CST.",
     DAY + 32 * HOUR + 11 * MINUTE + 46),
]  # fmt: skip


@pytest.mark.parametrize(("text", "until"), SAID)
def test_12_to_28_what_a_limit_says_is_the_end_of_its_hold(text: str, until: float) -> None:
    """From the text as both CLIs report it to the time that the hold is placed until: no step in between loses it."""
    said = claude(init(), final(is_error=True, api_error_status=429, result=text), exit=exited(1))
    error = opencode(failure(statusCode=429, message=text, responseBody=""), exit=exited(1))
    for outcome in (said, error):
        assert outcome.kind is O.QUOTA_EXHAUSTED
        assert outcome.hold is not None
        assert outcome.hold.until == pytest.approx(until, rel=0, abs=1)
        assert outcome.hold.stated
        assert then(outcome) == (Action.REDISPATCH, None, ())


def test_23_fields_beat_words_and_a_date_that_nobody_reads_is_no_reset() -> None:
    error = {"type": "usage_limit_reached", "message": "try again in 2 days", "plan_type": "plus"}
    both = {**error, "resets_at": NOW + 13872, "resets_in_seconds": 99}
    for given, until in ((both, NOW + 13872), ({**error, "resets_in_seconds": 13872}, NOW + 13872)):
        body = json.dumps({"type": "error", "error": given, "status_code": 429})
        outcome = opencode(failure(statusCode=429, message="The usage limit", responseBody=body), exit=exited(1))
        assert outcome.hold is not None
        assert (outcome.kind, outcome.hold.until, outcome.hold.stated) == (O.QUOTA_EXHAUSTED, until, True)
    foreign = "You've hit your usage limit, try again at 10 de jul. de 2026, 11:52."
    outcome = opencode(failure(statusCode=429, message=foreign), exit=exited(1))
    assert outcome.hold is not None
    assert (outcome.kind, outcome.hold.stated) == (O.QUOTA_EXHAUSTED, False)


def test_15_a_clock_time_without_a_zone_is_that_of_this_machine() -> None:
    last = final(is_error=True, api_error_status=429, result="Session limit reached \u2219 resets 11pm")
    until = {}
    for zone in ("UTC", "Asia/Tokyo"):
        outcome = get("claude", zone).read([init(), last], [], [], exited(1), now=NOW)
        assert outcome.hold is not None
        until[zone] = outcome.hold.until
    assert until["UTC"] is not None
    assert until["Asia/Tokyo"] is not None
    assert (until["UTC"] - until["Asia/Tokyo"]) % 86400 == 9 * 3600
    signal = get("claude", "Asia/Tokyo").watch("m", Billing.SUBSCRIPTION).feed("stdout", last, NOW)[-1]
    assert signal.hold is not None
    assert signal.hold.until == until["Asia/Tokyo"]


def test_30_and_39_to_43_exit_0_with_the_error_on_stderr_alone() -> None:
    for line, kind in (
        (b"ProviderModelNotFoundError: ProviderModelNotFoundError", O.MODEL_NOT_FOUND),
        (b"\x1b[91mError: \x1b[0mModel not found: some/thing-5. Did you mean: some-5?", O.MODEL_NOT_FOUND),
        (b"Error: AI_APICallError: No auth credentials found", O.AUTH),
        (b"Error: AI_APICallError: prompt token count of 130001 exceeds the limit of 128000", O.CONTEXT_OVERFLOW),
        (
            b'AI_TypeValidationError: Type validation failed: Value: {"error":{"msg":"Too many requests"}}',
            O.RATE_LIMITED,
        ),
    ):
        outcome = opencode(stderr=(line,), exit=exited(0))
        assert outcome.kind is kind
        action, candidate, _ = then(outcome)
        assert (action, candidate) == (Action.REDISPATCH, None)
    suggested = opencode(stderr=(b"Error: Model not found: a/b. Did you mean: c-5?",), exit=exited(0))
    assert "Did you mean: c-5?" in suggested.reason  # shown, and never adopted: models are pinned
    assert suggested.hold is not None
    assert (suggested.hold.scope, suggested.hold.until) == (HoldScope.MODEL, None)


def test_33_money_is_no_overflow_and_no_other_key_is_tried_twice() -> None:
    error = failure(statusCode=402, message="Prompt tokens limit exceeded: 230000 > 91000. To increase, visit the shop")
    outcome = opencode(error, exit=exited(1))
    assert outcome.hold is not None
    assert (outcome.kind, outcome.hold.scope, outcome.hold.until) == (O.BILLING, HoldScope.CREDENTIAL, None)
    assert then(outcome) == (Action.REDISPATCH, None, ("one",))


def test_35_retries_that_were_overcome_are_no_error() -> None:
    noise = (b"API Error (529 {'type':'overloaded_error'}) \xc2\xb7 Retrying in 4 seconds\xe2\x80\xa6 (attempt 4/10)",)
    again = api_retry(attempt=1, retry_delay_ms=600, error_status=529, error="overloaded")
    outcome = claude(init(), again, assistant(1, use(1, "ls")), result(1, False), final(), stderr=noise)
    assert (outcome.kind, outcome.positive, outcome.hold) == (O.COMPLETED, True, None)


@pytest.mark.parametrize("status", [404, None])
def test_38_the_model_that_we_pinned_is_parked_whatever_model_the_text_names(status: int | None) -> None:
    """The CLI names an id that it made of an alias, and a terminal wrapped the line."""
    text = "There's an issue with the selected\n   model (claude-haiku-4-5-20251001). It may not exist or so."
    outcome = claude(init(), final(is_error=True, api_error_status=status, result=text), exit=exited(1))
    assert outcome.hold is not None
    assert (outcome.kind, outcome.hold.scope, outcome.hold.until) == (O.MODEL_NOT_FOUND, HoldScope.MODEL, None)
    pinned = Candidate("one", "claude", "haiku", Credential("plan", Billing.SUBSCRIPTION))
    assert hold_key(outcome.hold.scope, pinned) == "plan/haiku"
    assert then(outcome) == (Action.REDISPATCH, None, ("one",))


def test_42_an_error_that_explains_nothing_gets_one_more_try() -> None:
    outcome = opencode(failure("UnknownError", message="Unexpected server error.", ref="err_1"), exit=exited(1))
    first = verdict(outcome)
    assert outcome.kind is O.INTERNAL
    assert first.next is not None
    assert first.next.candidate == "one"
    assert then(outcome, counters=first.counters) == (Action.REDISPATCH, None, ("one",))


@pytest.mark.parametrize("text", OVERFLOWS)
def test_44_an_overflow_never_holds_the_model(text: str) -> None:
    outcome = opencode(failure(statusCode=400, message=text), exit=exited(1))
    assert (outcome.kind, outcome.hold) == (O.CONTEXT_OVERFLOW, None)
    assert then(outcome) == (Action.REDISPATCH, None, ("one",))
    assert not verdict(outcome).counted


def test_45_a_clean_exit_after_a_compaction_is_not_the_end_of_the_work() -> None:
    side = (bridge(type="summary", message="msg_1"),)
    outcome = opencode(STEP, tool("completed"), CALLS, STEP, TEXT, STOP, side=side)
    assert not outcome.positive
    assert then(outcome, DIRTY)[0] is Action.FINISH


@pytest.mark.parametrize("exit", [exited(1), exited(143), ended(EndReason.FINISHED)])
def test_48_an_exit_code_after_the_result_is_only_a_note(exit: Any) -> None:
    outcome = claude(init(), final(), exit=exit)
    assert then(outcome, COMMITTED)[0] is Action.REVIEW
    assert then(outcome, DIRTY)[0] is Action.FINISH


def test_49_an_agent_that_writes_about_limits_ends_well() -> None:
    """Every text of the failure table in what the model says and what its tools print, in one run."""
    texts = [*(text for text, _ in TEXTS), *OVERFLOWS]
    talk = [line for n, text in enumerate(texts) for line in (STEP, tool("completed", n, output=text), CALLS)]
    said = event("text", type="text", messageID="msg_1", text="\n".join(texts))
    steps = [
        line
        for n, text in enumerate(texts)
        for line in (assistant(n, use(n, text)), assistant(n, {"type": "text", "text": text}), result(n, False))
    ]
    lines = {"opencode": [*talk, STEP, said, STOP], "claude": [init(), *steps, final(result="\n".join(texts))]}
    alarms = {SignalKind.QUOTA, SignalKind.RETRY, SignalKind.PERMISSION, SignalKind.MISMATCH, SignalKind.RUNAWAY}
    for name, stdout in lines.items():
        outcome = get(name).read(stdout, (), (), exited(0), now=NOW)
        assert (outcome.kind, outcome.hold, outcome.notes) == (O.COMPLETED, None, ())
        watcher = watch(name)
        assert not {signal.kind for line in stdout for signal in watcher.feed("stdout", line, NOW)} & alarms


def test_50_a_warning_is_never_the_last_message() -> None:
    warning = b"Warning: no stdin data received in 3s, proceeding without it. Redirect stdin explicitly: < /dev/null"
    outcome = claude(init(), final(result="All four files are written."), stderr=(warning,))
    assert (outcome.positive, outcome.final_text) == (True, "All four files are written.")
    failed = claude(init(), stderr=(warning,), exit=exited(1))
    assert (failed.kind, failed.final_text) == (O.UNKNOWN, "")
    assert "stdin" not in failed.reason + failed.proof


@pytest.mark.parametrize(
    ("harness", "stderr", "code"),
    [
        ("opencode", b"\x1b[91m\x1b[1mError: \x1b[0mSession not found", 1),
        ("opencode", b'NotFoundError: NotFoundError  data: {"message":"Session not found: ses_nowhere"}', 0),
        ("claude", b"No conversation found with session ID: 0b0c", 1),
    ],
)
def test_51_a_session_that_is_gone_costs_no_finish_attempt(harness: str, stderr: bytes, code: int) -> None:
    outcome = get(harness).read((), (stderr,), (), exited(code), now=NOW)
    assert outcome.session_gone
    found = verdict(outcome, DIRTY, prompt=PromptKind.FINISH, session_id="ses_nowhere", note="run the linter")
    assert (found.action, found.counters.finish_attempts, found.counted) == (Action.FINISH, 0, False)
    assert found.next is not None
    assert (found.next.candidate, found.next.session_id, found.next.note) == ("one", None, "run the linter")


@pytest.mark.parametrize("session", ["dummy", "ses_nowhere"])
def test_51_a_session_that_is_gone_may_also_be_told_as_an_event(session: str) -> None:
    error = {"name": "NotFoundError", "data": {"message": "Session not found: ses_nowhere"}}
    lines = [json.dumps({"type": "error", "sessionID": name, "error": error}).encode() for name in (session, "ses_1")]
    assert opencode(lines[0], exit=exited(0)).session_gone
    assert not opencode(*GOOD, lines[1], exit=exited(1)).session_gone, "something was run in it"


@pytest.mark.parametrize(
    "error",
    [
        "The edit tool was called with invalid arguments: [path]. Please rewrite the input",
        "Model tried to call unavailable tool 'question'. Available tools: bash, edit",
    ],
)
def test_52_bad_arguments_as_the_last_thing_hold_nothing(error: str) -> None:
    bad = tool("error", error=error)
    outcome = opencode(STEP, bad, exit=exited(1))
    assert (outcome.kind, outcome.hold) == (O.INVALID_TOOL_ARGS, None)
    assert then(outcome) == (Action.REDISPATCH, None, ("one",))
    assert opencode(STEP, bad, CALLS, *GOOD).positive


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("subtype", ["error_max_turns", "error_max_budget_usd"])
def test_53_a_limit_of_the_run_is_finished_and_no_failure_of_the_model(subtype: str, code: int) -> None:
    outcome = claude(init(), final(subtype=subtype, is_error=True, errors=[], result=None), exit=exited(code))
    assert (outcome.kind, outcome.hold) == (O.RUN_LIMIT, None)
    found = verdict(outcome, DIRTY)
    assert (found.action, found.counted) == (Action.FINISH, False)
    without = claude(init(), assistant(1, use(1, "ls")), result(1, False), exit=exited(0))
    assert then(without, DIRTY)[0] is Action.FINISH  # the stream may also simply end


def test_54_totals_of_one_process_are_no_summands() -> None:
    results = [final(total_cost_usd=cost, usage={"input_tokens": tokens}) for cost, tokens in ((1.0, 100), (3.0, 300))]
    usage = claude(init(), *results).usage
    assert (usage.cost_usd, usage.input) == (3.0, 300)
    assert (claude(init(), final()).usage.cost_usd, opencode(STEP, TEXT, CALLS).usage.cost_usd) == (None, None)


def test_55_a_question_nobody_answers_ends_the_walk_and_names_the_path() -> None:
    line = b"\x1b[93m\x1b[1m! \x1b[0mpermission requested: external_directory (/srv/other/*); auto-rejecting"
    found = verdict(opencode(stderr=(line,), exit=exited(0)))
    assert found.action is Action.NEEDS_HUMAN
    assert "external_directory (/srv/other/*)" in found.reason
    done = {"type": "done", "sessionID": "ses_1", "reason": "idle", "rejected": ["external_directory"]}
    newer = verdict(opencode(STEP, json.dumps(done).encode(), exit=exited(0)))
    assert newer.action is Action.NEEDS_HUMAN
    assert "external_directory" in newer.reason


def test_56_no_byte_at_all_moves_on_to_the_next_model() -> None:
    outcome = opencode(exit=exited(0))
    first = verdict(outcome)
    assert outcome.kind is O.EMPTY_OUTPUT
    assert then(outcome, counters=first.counters) == (Action.REDISPATCH, None, ("one",))


# --- the stream ---------------------------------------------------------------------------------------------------


def test_65_unknown_events_and_the_newer_last_event_change_nothing() -> None:
    new = [
        b'{"type":"session_weather","sessionID":"ses_1","part":{"sky":["blue"]}}',
        b'{"type":"text","sessionID":"ses_1","extra":{"a":1},"part":{"type":"text","messageID":"msg_1","text":""}}',
        b'{"kind":"no type at all"}',
        b"[1, 2]",
    ]
    done = b'{"type":"done","timestamp":1,"sessionID":"ses_1","reason":"idle","rejected":[]}'
    plain = opencode(*GOOD)
    for stdout in ([*GOOD, done], [*new, *GOOD], [*GOOD[:3], *new, *GOOD[3:], done], [*GOOD, new[0], *new[2:]]):
        assert opencode(*stdout) == plain
    assert claude(init(), b'{"type":"forecast","n":1}', final(a_new_field={"x": 1})) == claude(init(), final())


def test_67_silence_from_the_start_is_the_cli_and_not_the_model() -> None:
    outcome = opencode(exit=ended(EndReason.START_SILENCE))
    found = verdict(outcome)
    assert (outcome.kind, found.action, found.counted) == (O.STALLED, Action.REDISPATCH, False)
    assert found.next is not None
    assert (found.next.candidate, found.counters.backoffs) == ("one", {"one": 1})
    later = opencode(*GOOD[:3], exit=ended(EndReason.STALLED))
    assert then(later) == (Action.REDISPATCH, None, ("one",))


def test_68_a_question_to_a_person_is_seen_while_it_waits() -> None:
    running = event("tool_use", type="tool", tool="question", callID="call_9", state={"status": "running", "input": {}})
    for channel, line in (
        ("stdout", running),
        ("bridge", bridge(type="tool_started", tool="question", call="call_9")),
        ("stderr", b"INFO 2026-05-20T10:00:00 +3ms service=permission asking id=per_7 permission=external_directory"),
    ):
        signals = watch("opencode").feed(channel, line, NOW)  # type: ignore[arg-type]
        assert SignalKind.PERMISSION in {signal.kind for signal in signals}, line
    other = event("tool_use", type="tool", tool="bash", callID="call_9", state={"status": "running", "input": {}})
    assert [signal.kind for signal in watch("opencode").feed("stdout", other, NOW)][2:] == [
        SignalKind.PROGRESS,
        SignalKind.TOOL_STARTED,
    ]


def test_69_a_success_whose_background_work_was_cut_off_is_judged_by_git() -> None:
    outcome = claude(init(), assistant(1, use(1, "make &")), result(1, False), final(result="The build runs."))
    assert then(outcome, DIRTY) == (Action.FINISH, "one", ())


def test_88_root_that_skips_permissions_is_for_a_person_and_no_other_model() -> None:
    found = verdict(read("claude/skip-root", exited(1)))
    assert found.action is Action.NEEDS_HUMAN
    assert "root/sudo" in found.reason


# --- the CLI's own configuration ----------------------------------------------------------------------------------


def test_141_another_agent_than_the_one_that_was_named_is_noted() -> None:
    warning = b'\x1b[93m! \x1b[0m agent "reviewer" not found. Falling back to default agent'
    outcome = opencode(*GOOD, stderr=(warning,))
    assert outcome.positive
    assert any('agent "reviewer" not found' in note for note in outcome.notes)


@pytest.mark.parametrize("line", [b"ServeError: listen 127.0.0.1:4096", b"Error: port 4096 is already in use"])
def test_143_a_pinned_port_is_no_failure_of_the_model(line: bytes) -> None:
    outcome = opencode(stderr=(line,), exit=exited(1))
    found = verdict(outcome)
    assert (outcome.kind, found.counted) == (O.HARNESS_LOCKED, False)
    assert found.next is not None
    assert (found.next.candidate, found.delay > 0) == ("one", True)
    assert "server.port" in found.reason


def test_144_another_model_than_the_pinned_one_is_a_mismatch() -> None:
    for signals in (
        watch("claude").feed("stdout", init(model="claude-haiku-4-5"), NOW),
        watch("opencode").feed("bridge", bridge(type="call", agent="build", provider="fake", model="m9"), NOW),
    ):
        assert any(signal.outcome is O.MODEL_MISMATCH for signal in signals)
