"""The outcome at exit: which evidence wins, for exits of every kind, and what a transcript never proves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dispatcher.harness import get
from dispatcher.task import EndReason, ExitRecord, HoldRequest, HoldScope, Outcome, OutcomeClass

from ..core.test_failures import OVERFLOWS, TEXTS
from .captures import NOW, lines, read
from .test_watch import assistant, bridge, event, init, result, tool, use

O = OutcomeClass  # noqa: E741
EXITED = ExitRecord("m", NOW - 60, NOW, EndReason.EXITED, exit_code=0)


def exited(code: int | None = 0, signal: int | None = None) -> ExitRecord:
    return replace(EXITED, exit_code=code, signal=signal)


def ended(reason: EndReason, **fields: Any) -> ExitRecord:
    return replace(EXITED, reason=reason, exit_code=143, **fields)


def opencode(
    *stdout: bytes, stderr: tuple[bytes, ...] = (), side: tuple[bytes, ...] = (), exit: ExitRecord | None = EXITED
) -> Outcome:
    return get("opencode").read(stdout, stderr, side, exit, now=NOW)


def claude(*stdout: bytes, stderr: tuple[bytes, ...] = (), exit: ExitRecord | None = EXITED) -> Outcome:
    return get("claude").read(stdout, stderr, (), exit, now=NOW)


STEP = event("step_start", messageID="msg_1")
TEXT = event("text", type="text", messageID="msg_1", text="Done.")
STOP = event("step_finish", messageID="msg_1", reason="stop", tokens={"input": 5, "output": 7}, cost=0.5)
CALLS = event("step_finish", messageID="msg_1", reason="tool-calls")
GOOD = (STEP, tool("completed"), CALLS, STEP, TEXT, STOP)


def failure(name: str = "APIError", **data: object) -> bytes:
    return json.dumps({"type": "error", "sessionID": "ses_1", "error": {"name": name, "data": data}}).encode()


def final(**fields: object) -> bytes:
    known = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 2,
        "result": "Done.",
        "session_id": "s",
    }
    return json.dumps({**known, **fields}).encode()


# --- the order of evidence ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit", "kind", "positive"),
    [
        (exited(0), O.COMPLETED, True),
        (exited(1), O.COMPLETED, True),  # the result counts, the code is a note
        (exited(143), O.COMPLETED, True),
        (exited(None, 9), O.COMPLETED, True),
        (ended(EndReason.FINISHED), O.COMPLETED, True),
        (ended(EndReason.STALLED), O.COMPLETED, True),
        (ended(EndReason.HARD_CAP, timed_out=True), O.COMPLETED, True),
        (None, O.COMPLETED, True),
        (ended(EndReason.CANCELLED), O.CANCELLED, False),
        (ended(EndReason.RUNAWAY, detail="20 answers"), O.RUNAWAY, False),
        (ended(EndReason.MISMATCH, kind=O.BILLING_MISMATCH), O.BILLING_MISMATCH, False),
        (ended(EndReason.APPROVAL), O.AWAITING_APPROVAL, False),
    ],
)
def test_a_positive_result_and_how_it_ended(exit: ExitRecord | None, kind: OutcomeClass, positive: bool) -> None:
    for outcome in (opencode(*GOOD, exit=exit), claude(init(), final(), exit=exit)):
        assert (outcome.kind, outcome.positive) == (kind, positive)


def test_an_exit_that_does_not_fit_the_result_is_noted() -> None:
    assert claude(init(), final(), exit=exited(1)).notes == ("exit code 1 after a positive result",)
    assert claude(init(), final(), exit=ended(EndReason.FINISHED)).notes == ()
    assert "stalled" in claude(init(), final(), exit=ended(EndReason.STALLED)).notes[0]


@pytest.mark.parametrize(
    ("exit", "kind"),
    [
        (exited(0), O.UNKNOWN),
        (exited(1), O.UNKNOWN),
        (exited(None, 9), O.KILLED),
        (exited(137), O.KILLED),
        (exited(143), O.KILLED),
        (None, O.LOST),
        (ended(EndReason.START_SILENCE), O.STALLED),
        (ended(EndReason.STALLED), O.STALLED),
        (ended(EndReason.HARD_CAP), O.TIMED_OUT),
        (ended(EndReason.CANCELLED), O.CANCELLED),
        (ended(EndReason.STOPPED), O.STOPPED),
        (ended(EndReason.PERMISSION), O.PERMISSION_DENIED),
        (ended(EndReason.QUOTA), O.RATE_LIMITED),
        (ended(EndReason.GATE), O.INTERNAL),
        (ended(EndReason.SUPERVISOR_ERROR), O.LOST),
        (ended(EndReason.SPAWN_FAILED, detail="[Errno 2] No such file"), O.HARNESS_MISSING),
        (ended(EndReason.SPAWN_FAILED, detail="[Errno 7] Argument list too long"), O.BRIEF_TOO_LARGE),
    ],
)
def test_no_result_and_no_error(exit: ExitRecord | None, kind: OutcomeClass) -> None:
    half = (STEP, tool("completed"), CALLS)
    for outcome in (
        opencode(*half, exit=exit),
        claude(init(), assistant(1, use(1, "ls")), result(1, False), exit=exit),
    ):
        assert (outcome.kind, outcome.positive) == (kind, False)
        assert outcome.reason


def test_every_end_reason_has_an_outcome() -> None:
    for reason in EndReason:
        assert opencode(exit=ended(reason)).kind in O


def test_what_the_supervisor_saw_live_is_kept() -> None:
    hold = HoldRequest(HoldScope.MODEL, NOW + 99, "used up")
    exit = ended(
        EndReason.QUOTA, kind=O.QUOTA_EXHAUSTED, hold=hold, proof="seen", session_id="ses_9", observed_model="a/b"
    )
    outcome = opencode(exit=exit)
    assert (outcome.kind, outcome.hold, outcome.proof) == (O.QUOTA_EXHAUSTED, hold, "seen")
    assert (outcome.session_id, outcome.observed_model) == ("ses_9", "a/b")


def test_exit_0_without_any_output() -> None:
    for outcome in (opencode(), claude()):
        assert outcome.kind is O.EMPTY_OUTPUT


def test_a_truncated_stream_is_said() -> None:
    """opencode drops events at its exit: only a step_start, though all was done. Git will tell."""
    outcome = opencode(STEP)
    assert (outcome.kind, outcome.positive) == (O.UNKNOWN, False)
    partial, truncated = outcome.notes
    assert "stream truncated" in truncated
    assert partial.startswith("tokens are partial")
    assert (outcome.usage.input, outcome.usage.cost_usd) == (None, None)


# --- opencode -----------------------------------------------------------------------------------------------------


def test_an_error_after_the_work_wins_over_an_earlier_finish() -> None:
    outcome = opencode(*GOOD, failure(message="odd bad request", statusCode=400), exit=exited(1))
    assert (outcome.kind, outcome.positive) == (O.UNKNOWN, False)
    assert "odd bad request" in outcome.reason


def test_an_error_that_was_overcome_is_not_the_end() -> None:
    overflow = failure("ContextOverflowError", message="too long")
    summary, answer = (event("step_finish", messageID=name, reason="stop") for name in ("msg_2", "msg_3"))
    assert opencode(overflow, STEP, summary, exit=exited(0)).kind is O.CONTEXT_OVERFLOW
    assert opencode(overflow, STEP, summary, STEP, TEXT, answer).positive
    assert opencode(overflow, STEP, summary, STEP, tool("completed"), CALLS, STEP, STOP).positive


def test_a_summary_that_the_plugin_named_is_no_answer() -> None:
    side = (bridge(type="summary", message="msg_1"),)
    assert not opencode(*GOOD, side=side).positive


def test_the_plugin_names_the_model() -> None:
    side = (
        bridge(type="call", agent="build", provider="a", model="b"),
        bridge(type="call", agent="title", provider="x", model="y"),
    )
    outcome = opencode(*GOOD, side=side)
    assert (outcome.observed_model, outcome.model_evidence.value) == ("a/b", "confirmed")
    logged = opencode(*lines("opencode/half", "stdout"), stderr=lines("opencode/half", "stderr"))
    assert (logged.observed_model, logged.model_evidence.value) == ("fake/m1", "logged")


def test_a_limit_that_was_still_waited_for() -> None:
    side = (bridge(type="retry", attempt=1, message="Free usage exceeded", next=(NOW + 3600) * 1000),)
    half = (STEP, tool("completed"), CALLS)
    for exit in (ended(EndReason.STALLED), ended(EndReason.HARD_CAP), exited(None, 9), None):
        outcome = opencode(*half, side=side, exit=exit)
        assert outcome.kind is O.QUOTA_EXHAUSTED
        assert outcome.hold is not None
        assert outcome.hold.until == NOW + 3600


def test_a_log_line_from_before_the_last_progress_was_overcome() -> None:
    stamp = b"timestamp=2026-11-29T13:00:00.000Z"
    log = lines("opencode/429errlog", "stderr")[0]
    old = stamp + log[log.index(b" level") :]
    late = event("tool_use", callID="c", state={"status": "completed"}).replace(b"1795960000000.0", b"1795957500000")
    assert opencode(late, stderr=(old,), exit=exited(None, 9)).kind is O.KILLED
    assert opencode(late, stderr=(log,), exit=exited(None, 9)).kind is O.QUOTA_EXHAUSTED


def test_bad_arguments_end_a_run_only_as_the_last_thing() -> None:
    bad = tool("error", error="The grep tool was called with invalid arguments: [ ... ]. Please rewrite the input")
    assert opencode(STEP, bad, exit=exited(1)).kind is O.INVALID_TOOL_ARGS
    assert opencode(STEP, bad, CALLS, STEP, tool("completed"), exit=exited(1)).kind is O.UNKNOWN
    assert opencode(STEP, bad, CALLS, STEP, TEXT, STOP).positive


def test_a_rejected_question_ends_a_run() -> None:
    done = json.dumps(
        {"type": "done", "sessionID": "ses_1", "reason": "idle", "rejected": ["external_directory"]}
    ).encode()
    outcome = opencode(
        STEP, tool("error", error="The user rejected permission to use this specific tool call."), CALLS, done
    )
    assert outcome.kind is O.PERMISSION_DENIED
    assert "permission external_directory" in outcome.denials
    assert opencode(*GOOD, json.dumps({"type": "done", "sessionID": "ses_1", "reason": "idle"}).encode()).positive


def test_open_items_of_the_todo_list() -> None:
    todos = [
        {"content": "a", "status": "completed"},
        {"content": "b", "status": "pending"},
        {"content": "c", "status": "cancelled"},
    ]
    line = event("tool_use", tool="todowrite", state={"status": "completed", "input": {"todos": todos}})
    assert opencode(line).todo == ("b",)


def test_a_session_that_is_gone_in_both_of_its_forms() -> None:
    for line in (b"\x1b[91mError: Session not found", b'NotFoundError "Session not found: ses_x"'):
        assert opencode(stderr=(line,), exit=exited(0)).session_gone


# --- claude -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"is_error": True, "result": "API Error: Rate limit reached", "stop_reason": "stop_sequence"}, O.RATE_LIMITED),
        ({"num_turns": 0, "result": "", "duration_api_ms": 0}, O.INTERNAL),
        ({"stop_reason": "tool_use", "num_turns": 9}, O.UNKNOWN),
        ({"result": ""}, O.EMPTY_OUTPUT),
        ({"subtype": "error_max_turns", "is_error": True, "errors": [], "result": None}, O.RUN_LIMIT),
        ({"subtype": "error_max_budget_usd", "is_error": True, "result": None}, O.RUN_LIMIT),
        ({"subtype": "error_during_execution", "is_error": True, "result": None}, O.INTERNAL),
        ({"stop_reason": "tool_deferred", "result": ""}, O.AWAITING_APPROVAL),
    ],
)
def test_results_of_exit_0_that_are_no_success(fields: dict[str, object], kind: OutcomeClass) -> None:
    outcome = claude(final(**fields))
    assert (outcome.kind, outcome.positive) == (kind, False)


def test_a_lost_right_after_hours_of_work() -> None:
    text = "Your organization has disabled Claude subscription access for Claude Code"
    message = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    synthetic = json.dumps({"type": "assistant", "message": message, "error": "oauth_org_not_allowed"}).encode()
    last = final(is_error=True, terminal_reason="api_error", api_error_status=403, result=text, num_turns=484)
    outcome = claude(init(), synthetic, last, exit=exited(1))
    assert outcome.kind is O.AUTH
    assert outcome.hold is not None
    assert (outcome.hold.scope, outcome.hold.until) == (HoldScope.CREDENTIAL, None)


def test_an_empty_answer_after_work_is_a_success() -> None:
    assert claude(init(), assistant(1, use(1, "ls")), result(1, False), final(result="")).positive


def test_an_approval_among_several_results_is_not_overlooked() -> None:
    waiting = final(
        stop_reason="tool_deferred", deferred_tool_use={"id": "toolu_1", "name": "Bash", "input": {"command": "x"}}
    )
    assert claude(init(), waiting, final()).kind is O.AWAITING_APPROVAL
    assert claude(init(), waiting, result(1, False), final()).positive


def test_warnings_on_stderr_are_no_errors() -> None:
    warning = (
        b"Warning: no stdin data received in 3s, proceeding without it. If piping from a slow command, redirect stdin"
    )
    assert claude(init(), final(), stderr=(warning,)).final_text == "Done."
    assert claude(stderr=(warning, b'[claude-code:unrecognized_model] {"model":"x"}'), exit=exited(1)).kind is O.UNKNOWN


def test_overage_that_was_used_is_a_success() -> None:
    assert read("claude/rl-oa-200over", exited(0)).positive


def test_a_missing_cost_is_unknown_and_not_nothing() -> None:
    assert claude(init(), final()).usage.cost_usd is None
    totals = [final(total_cost_usd=cost, usage={"input_tokens": 5}) for cost in (1.0, 3.0)]
    assert claude(init(), *totals).usage.cost_usd == 3.0


def test_open_tasks_of_the_new_todo_tools() -> None:
    def call(number: int, name: str, **given: object) -> bytes:
        return assistant(number, {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given})

    events = [
        call(1, "TaskCreate", subject="a"),
        call(2, "TaskCreate", subject="b"),
        call(3, "TaskUpdate", taskId="1", status="completed"),
    ]
    assert claude(init(), *events).todo == ("b",)


# --- what is never an error ---------------------------------------------------------------------------------------

TALK = (
    [text for text, _ in TEXTS] + OVERFLOWS + ["FAILED test_quota - 429 != 200", "529 | x | timeout | max_tokens 16384"]
)


@pytest.mark.parametrize("text", TALK)
@pytest.mark.parametrize("exit", [exited(0), exited(1), exited(None, 9), ended(EndReason.HARD_CAP), None])
def test_what_a_model_says_and_a_tool_prints_proves_nothing(text: str, exit: ExitRecord | None) -> None:
    """An agent at work on a rate limiter: whatever the end of its run, none of its words is evidence."""
    said = event("text", type="text", messageID="msg_1", text=text)
    printed = tool("completed", output=text)
    failed = tool("error", error=f"Command failed: {text}")
    innocent = {O.COMPLETED, O.UNKNOWN, O.KILLED, O.TIMED_OUT, O.LOST}
    arguments = innocent | {O.INVALID_TOOL_ARGS}  # that one text is what a failed call really says
    assert opencode(STEP, said, printed, CALLS, STEP, said, exit=exit).kind in innocent
    assert opencode(STEP, failed, exit=exit).kind in arguments
    assert opencode(STEP, printed, CALLS, STEP, said, STOP, exit=exited(0)).positive
    part = {"tool_use_id": "toolu_1", "type": "tool_result", "content": text, "is_error": True}
    tail = json.dumps({"type": "user", "message": {"content": [part]}}).encode()
    talk = assistant(2, {"type": "text", "text": text})
    assert claude(init(), assistant(1, use(1, text)), tail, talk, exit=exit).kind in innocent
    assert claude(init(), tail, talk, final(result=text)).positive


def test_render_says_what_happened() -> None:
    harness = get("opencode")
    assert harness.render(tool("completed", 3)) == "> bash: step 3"
    failed = tool("completed", 3, metadata={"exit": 2})
    assert harness.render(failed) == "> bash: step 3\n  failed: exit code 2"
    assert harness.render(TEXT) == "Done."
    assert harness.render(failure(message="no", statusCode=429)) == "! APIError 429: no"
    assert harness.render(CALLS) is None
    assert get("claude").render(final(num_turns=1)) == "= finished (1 turn)"
    assert get("claude").render(final(num_turns=0, result="no such command")) == "= finished: no such command"
    assert get("claude").render(final(is_error=True, result="429")) == "= failed: 429"
    waits = final(stop_reason="tool_deferred", deferred_tool_use={"name": "Bash", "input": {"command": "git push"}})
    assert get("claude").render(waits) == '= waits for a person: Bash: {"command": "git push"}'
    assert get("claude").render(assistant(1, use(1, "ls"))) == "> Bash: ls"
