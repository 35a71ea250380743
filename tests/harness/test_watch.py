"""Live signals: what a line means at the moment it arrives, and that no line ever hurts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.harness import get, names
from dispatcher.harness.base import Channel, Signal, SignalKind, Watch
from dispatcher.task import Billing, HoldScope, OutcomeClass

from .captures import EXPECTED, NOW, harness_of, lines

K = SignalKind
SESSION = "ses_1"


def event(kind: str, **part: object) -> bytes:
    """A line as opencode prints it."""
    return json.dumps({"type": kind, "timestamp": NOW * 1000, "sessionID": SESSION, "part": part}).encode()


def tool(status: str, number: int = 0, **state: object) -> bytes:
    given = {"input": {"command": f"step {number}"}, "status": status, **state}
    return event("tool_use", type="tool", tool="bash", callID=f"call_{number}", state=given)


def bridge(**record: object) -> bytes:
    return json.dumps({"at": NOW * 1000, **record}).encode()


def assistant(number: int, content: dict[str, object], model: str = "claude-sonnet-5-5") -> bytes:
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": [content]}
    return json.dumps(
        {"type": "assistant", "message": message, "parent_tool_use_id": None}, separators=(",", ":")
    ).encode()


def use(number: int, command: str) -> dict[str, object]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}


def result(number: int, failed: bool) -> bytes:
    part = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": "x", "is_error": failed}
    return json.dumps({"type": "user", "message": {"role": "user", "content": [part]}}, separators=(",", ":")).encode()


def watch(name: str, model: str = "", billing: Billing = Billing.FREE, overage: bool = False) -> Watch:
    return get(name).watch(model or {"claude": "claude-sonnet-5-5"}.get(name, "fake/m1"), billing, overage=overage)


def feed(watcher: Watch, source: Iterable[bytes], channel: Channel = "stdout") -> list[Signal]:
    return [signal for line in source for signal in watcher.feed(channel, line, NOW)]


def kinds(signals: Iterable[Signal]) -> set[SignalKind]:
    return {signal.kind for signal in signals}


def only(signals: Iterable[Signal], kind: SignalKind) -> Signal:
    found = [signal for signal in signals if signal.kind is kind]
    assert len(found) == 1, found
    return found[0]


# --- opencode -----------------------------------------------------------------------------------------------------


def test_the_plugin_tells_a_rate_limit_with_the_exact_reset() -> None:
    watcher = watch("opencode")
    assert watcher.detection == "log"
    assert kinds(feed(watcher, [bridge(type="started")], "bridge")) == {K.STARTED}
    assert kinds(feed(watcher, [bridge(type="gate_ready")], "bridge")) == {K.GATE_READY}
    assert watcher.detection == "plugin"
    following = (NOW + 3600) * 1000
    line = bridge(type="retry", attempt=1, message="Free usage exceeded", action="free_tier_limit", next=following)
    signal = only(feed(watcher, [line], "bridge"), K.RETRY)
    assert (signal.outcome, signal.wait) == (OutcomeClass.QUOTA_EXHAUSTED, 3600.0)
    assert signal.hold is not None
    assert (signal.hold.scope, signal.hold.until) == (HoldScope.MODEL, NOW + 3600)


@pytest.mark.parametrize(("attempt", "delay"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 16.0), (5, 30.0), (9, 30.0)])
def test_the_cli_waiting_on_its_own_states_nothing(attempt: int, delay: float) -> None:
    line = bridge(type="retry", attempt=attempt, message="Rate limit exceeded", next=(NOW + delay) * 1000)
    signal = only(feed(watch("opencode"), [line], "bridge"), K.RETRY)
    assert signal.wait is None
    assert signal.hold is not None
    assert signal.hold.until == NOW + 60


def test_a_short_stated_wait_is_told() -> None:
    line = bridge(type="retry", attempt=1, message="Rate limit exceeded", next=(NOW + 5) * 1000)
    assert only(feed(watch("opencode"), [line], "bridge"), K.RETRY).wait == pytest.approx(5)


def test_the_log_is_the_fallback_and_silent_beside_the_plugin() -> None:
    log = lines("opencode/429errlog", "stderr")
    signal = only(feed(watch("opencode"), log, "stderr"), K.RETRY)
    assert (signal.outcome, signal.wait) == (OutcomeClass.QUOTA_EXHAUSTED, None)
    watcher = watch("opencode")
    feed(watcher, [bridge(type="started")], "bridge")
    assert K.RETRY not in kinds(feed(watcher, log, "stderr"))


def test_side_calls_and_other_log_lines_are_nothing() -> None:
    log = lines("opencode/429errlog", "stderr")[0]
    other = (
        b'timestamp=2026-11-29T13:09:05.961Z level=ERROR run=1 message="failed to fetch models" error="fetch failed"'
    )
    assert feed(watch("opencode"), [log.replace(b"small=false", b"small=true"), other, b"Warning: 429"], "stderr") == []


def test_another_model_is_a_mismatch_but_the_title_is_not() -> None:
    title = bridge(type="call", agent="title", provider="fake", model="small")
    assert feed(watch("opencode"), [title], "bridge") == []
    same = bridge(type="call", agent="build", provider="fake", model="m1")
    assert kinds(feed(watch("opencode"), [same, same], "bridge")) == {K.MODEL}
    other = bridge(type="call", agent="build", provider="fake", model="m2")
    signal = only(feed(watch("opencode"), [other, other], "bridge"), K.MISMATCH)
    assert signal.outcome is OutcomeClass.MODEL_MISMATCH
    assert "fake/m2" in signal.text


def test_questions_that_nobody_can_answer() -> None:
    for channel, line in (
        ("stderr", lines("opencode/ask", "stderr")[0]),
        (
            "stderr",
            b"timestamp=2026-11-29T13:09:05.961Z level=INFO run=1 asking id=per_1 permission=external_directory",
        ),
        ("bridge", bridge(type="asked", permission="external_directory")),
    ):
        signal = only(feed(watch("opencode"), [line], channel), K.PERMISSION)  # type: ignore[arg-type]
        assert signal.outcome is OutcomeClass.PERMISSION_DENIED


def test_tool_calls_open_and_close() -> None:
    watcher = watch("opencode")
    opened = feed(watcher, [bridge(type="tool_started", call="call_7")], "bridge")
    closed = feed(watcher, [tool("completed", 7)])
    assert only(opened, K.TOOL_STARTED).text == only(closed, K.TOOL_ENDED).text == "call_7"


def test_the_end_of_an_answer_and_what_takes_it_back() -> None:
    signals = feed(watch("opencode"), lines("opencode/ok", "stdout"))
    assert only(signals, K.FINISHED) is signals[-1]
    assert only(signals, K.SESSION).text == "ses_dd8af2486ffeoK8bx56FF7KW6k"
    loop = feed(watch("opencode"), lines("opencode/400ctx", "stdout"))
    last_finish = max(number for number, signal in enumerate(loop) if signal.kind is K.FINISHED)
    assert K.PROGRESS in kinds(loop[last_finish:]) or loop[-1].kind is K.FINISHED
    assert K.FINISHED in kinds(feed(watch("opencode"), [b'{"type":"done","sessionID":"ses_1","reason":"idle"}']))


# --- claude -------------------------------------------------------------------------------------------------------


def test_a_heartbeat_proves_no_progress_of_an_open_call() -> None:
    """claude prints one every 30 s for as long as a tool runs, also when the tool hangs for ever."""
    beat = b'{"type":"tool_progress","tool_use_id":"toolu_1","tool_name":"Bash","elapsed_time_seconds":30,%s"uuid":"u"}'
    watcher = watch("claude")
    assert K.TOOL_STARTED in kinds(feed(watcher, [assistant(1, use(1, "make"))]))
    assert feed(watcher, [beat % b'"heartbeat":true,']) == []
    assert kinds(feed(watcher, [beat % b""])) == {K.PROGRESS}


def api_retry(**fields: object) -> bytes:
    return json.dumps({"type": "system", "subtype": "api_retry", "max_retries": 2, **fields}).encode()


@pytest.mark.parametrize(
    ("attempt", "delay", "wait"),
    [
        (1, 510, None),
        (1, 624, None),
        (2, 1182, None),
        (7, 39909, None),
        (1, 5145, 5),
        (1, 6219, 5),
        (1, 6130, 5),
        (1, 11001, 9),
        (2, 60, 1),
    ],
)
def test_claude_tells_its_own_wait_from_a_stated_one(attempt: int, delay: float, wait: float | None) -> None:
    line = api_retry(attempt=attempt, retry_delay_ms=delay, error_status=429, error="rate_limit")
    signal = only(feed(watch("claude"), [line]), K.RETRY)
    assert signal.wait == wait
    assert signal.outcome is OutcomeClass.RATE_LIMITED


@pytest.mark.parametrize(
    ("status", "word", "kind"),
    [(401, "authentication_failed", OutcomeClass.AUTH), (529, "overloaded", OutcomeClass.OVERLOADED),
     (None, "unknown", OutcomeClass.NETWORK), (500, "server_error", OutcomeClass.INTERNAL)],
)  # fmt: skip
def test_what_claude_retries(status: int | None, word: str, kind: OutcomeClass) -> None:
    line = api_retry(attempt=1, retry_delay_ms=592.4467, error_status=status, error=word)
    assert only(feed(watch("claude"), [line]), K.RETRY).outcome is kind


def limits(**info: object) -> bytes:
    return json.dumps({"type": "rate_limit_event", "rate_limit_info": info}).encode()


def test_a_rejected_window_is_a_quota_with_its_reset() -> None:
    signals = feed(
        watch("claude", billing=Billing.SUBSCRIPTION),
        [limits(status="rejected", resetsAt=NOW + 900, rateLimitType="five_hour", isUsingOverage=False)],
    )
    signal = only(signals, K.QUOTA)
    assert signal.hold is not None
    assert (signal.hold.scope, signal.hold.until, signal.hold.window) == (HoldScope.CREDENTIAL, NOW + 900, "five_hour")


@pytest.mark.parametrize(
    "info",
    [
        {"status": "allowed"},
        {"status": "allowed_warning", "utilization": 1},
        {"status": "brand_new", "rateLimitType": 7},
        {},
    ],
)
def test_information_about_limits_stops_nothing(info: dict[str, Any]) -> None:
    assert kinds(feed(watch("claude", billing=Billing.SUBSCRIPTION), [limits(**info)])) == {K.PROGRESS}


def test_overage_is_other_money_unless_the_credential_allows_it() -> None:
    line = limits(status="rejected", resetsAt=NOW + 900, isUsingOverage=True, overageStatus="allowed")
    signal = only(feed(watch("claude", billing=Billing.SUBSCRIPTION), [line]), K.MISMATCH)
    assert signal.outcome is OutcomeClass.BILLING_MISMATCH
    assert signal.hold is not None
    assert signal.hold.until is None
    assert kinds(feed(watch("claude", billing=Billing.SUBSCRIPTION, overage=True), [line])) == {K.PROGRESS}


def init(**fields: object) -> bytes:
    known = {
        "type": "system",
        "subtype": "init",
        "session_id": "s",
        "model": "claude-sonnet-5-5",
        "apiKeySource": "none",
    }
    return json.dumps({**known, **fields}).encode()


def test_a_key_behind_a_subscription_is_a_mismatch() -> None:
    line = init(apiKeySource="ANTHROPIC_API_KEY")
    signal = only(feed(watch("claude", billing=Billing.SUBSCRIPTION), [line]), K.MISMATCH)
    assert signal.outcome is OutcomeClass.BILLING_MISMATCH
    assert K.MISMATCH not in kinds(feed(watch("claude", billing=Billing.METERED), [line]))
    assert K.MISMATCH not in kinds(feed(watch("claude", billing=Billing.SUBSCRIPTION), [init()]))


@pytest.mark.parametrize(
    ("pinned", "seen", "same"),
    [
        ("claude-sonnet-5-5", "claude-sonnet-5-5", True),
        ("claude-sonnet-5-5", "claude-sonnet-5-5-20260901", True),
        ("claude-sonnet-5-5-20260901", "claude-sonnet-5-5", True),
        ("claude-sonnet-5-5[1m]", "claude-sonnet-5-5", True),
        ("sonnet", "claude-sonnet-5-5", True),
        ("opus", "claude-sonnet-5-5", False),
        ("claude-sonnet-5-5", "claude-haiku-4-5", False),
        ("claude-sonnet-5", "claude-sonnet-5-5", False),
    ],
)
def test_models(pinned: str, seen: str, same: bool) -> None:
    signals = feed(watch("claude", pinned), [init(model=seen)])
    assert (K.MISMATCH not in kinds(signals)) == same


def test_a_fallback_model_is_a_mismatch() -> None:
    signal = only(feed(watch("claude", "claude-sonnet-4-5"), lines("claude/fb-529", "stdout")), K.MISMATCH)
    assert "claude-haiku-4-5" in signal.text


def test_a_deferred_call_is_an_approval() -> None:
    signal = only(feed(watch("claude", "claude-sonnet-4-5"), lines("claude/df-1", "stdout")), K.APPROVAL)
    assert "pushed.txt" in signal.text


# --- runaways -----------------------------------------------------------------------------------------------------


def requests_until_runaway(signals: list[Signal]) -> int:
    return next(number for number, signal in enumerate(signals) if signal.kind is K.RUNAWAY)


def test_the_two_endless_loops_are_seen_early() -> None:
    for name, most in (("opencode/400ctx", 15), ("opencode/drop", 20)):
        seen = 0
        watcher = watch("opencode")
        for line in lines(name, "stdout"):
            seen += 1
            if K.RUNAWAY in kinds(watcher.feed("stdout", line, NOW)):
                break
        assert seen <= most, name


def test_a_healthy_run_of_400_steps_is_left_alone() -> None:
    watcher = watch("opencode")
    run = [
        line
        for n in range(400)
        for line in (event("step_start"), tool("completed", n), event("step_finish", reason="tool-calls"))
    ]
    assert K.RUNAWAY not in kinds(feed(watcher, run))
    steps = [line for n in range(400) for line in (assistant(n, use(n, "pytest")), result(n, n % 3 == 0))]
    assert K.RUNAWAY not in kinds(feed(watch("claude"), steps))


def test_a_provider_that_never_says_finish_but_works_is_left_alone() -> None:
    run = [
        line
        for n in range(50)
        for line in (event("step_start"), tool("completed", n), event("step_finish", reason="unknown"))
    ]
    assert K.RUNAWAY not in kinds(feed(watch("opencode"), run))


def test_the_same_failure_again_and_again() -> None:
    same = [tool("error", error="invalid arguments") for _ in range(8)]
    signal = only(feed(watch("opencode"), same), K.RUNAWAY)
    assert signal.outcome is OutcomeClass.RUNAWAY
    assert "8 identical failures of the tool bash" in signal.text
    different = [tool("error", n, error="no such file") for n in range(8)]
    assert K.RUNAWAY not in kinds(feed(watch("opencode"), different))
    stubborn = [line for n in range(8) for line in (assistant(n, use(n, "make")), result(n, True))]
    assert K.RUNAWAY in kinds(feed(watch("claude"), stubborn))


def test_a_success_between_failures_is_progress() -> None:
    run = [line for n in range(30) for line in (tool("error", error="x"), tool("completed", n))]
    assert K.RUNAWAY not in kinds(feed(watch("opencode"), run))


def test_answers_without_any_tool_result() -> None:
    assert K.RUNAWAY in kinds(feed(watch("opencode"), [event("step_start")] * 20))
    talk = [assistant(n, {"type": "text", "text": "hm"}) for n in range(20)]
    assert K.RUNAWAY in kinds(feed(watch("claude"), talk))


def test_compaction_that_does_not_help() -> None:
    line = event("text", type="text", synthetic=True, metadata={"compaction_continue": True}, text="continue")
    assert K.RUNAWAY in kinds(feed(watch("opencode"), [line] * 4))


# --- every line there is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_healthy_captures_raise_no_alarm(name: str) -> None:
    if EXPECTED[name] is not OutcomeClass.COMPLETED:
        return
    model = "claude-sonnet-4-5" if harness_of(name) == "claude" else "fake/m1"
    billing = Billing.SUBSCRIPTION if "/rl-oa" in name or "/wd-oa" in name else Billing.METERED
    signals = feed(watch(harness_of(name), model, billing, overage=True), lines(name, "stdout"))
    if name not in ("claude/fb-529", "claude/wd-oa-429"):  # another model, and a limit that was waited for
        assert not kinds(signals) & {K.MISMATCH, K.QUOTA, K.RUNAWAY, K.PERMISSION, K.APPROVAL}
    assert K.FINISHED in kinds(signals)


def test_a_line_of_eight_mebibytes_costs_no_parsing_and_cut_lines_are_skipped() -> None:
    big = tool("completed", output="x" * (8 << 20))
    for line in (big, big[: 1 << 20]):
        assert K.TOOL_ENDED in kinds(feed(watch("opencode"), [line])) or not line.endswith(b"}")
        assert K.PROGRESS in kinds(feed(watch("opencode"), [line]))
    for name in names():
        feed(watch(name), [b"{" * 100_000, b"[" * 100_000, b'{"type":"error","sessionID":"s","error":' + b"[" * 50_000])


def test_bytes_that_are_no_text() -> None:
    broken = b'{"type":"error","sessionID":"s","error":{"data":{"message":"\x94\xf0\x9f","statusCode":429}}}'
    assert K.QUOTA in kinds(feed(watch("opencode"), [broken]))


_TYPES = st.sampled_from(
    [
        "step_start",
        "tool_use",
        "step_finish",
        "text",
        "error",
        "done",
        "system",
        "assistant",
        "user",
        "result",
        "rate_limit_event",
        "retry",
        "call",
        "started",
        "session.status",
    ]
)
_INNER = st.sampled_from(
    [
        "part",
        "state",
        "error",
        "data",
        "message",
        "content",
        "type",
        "status",
        "properties",
        "subtype",
        "usage",
        "tokens",
        "cache",
        "input",
        "todos",
        "model",
        "errors",
        "id",
        "rate_limit_info",
    ]
)
_OUTER = st.sampled_from(
    [
        "part",
        "error",
        "message",
        "subtype",
        "sessionID",
        "session_id",
        "properties",
        "rate_limit_info",
        "permission_denials",
        "errors",
        "stop_reason",
        "modelUsage",
        "rejected",
        "at",
        "next",
        "attempt",
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_INNER, inner, max_size=4),
    max_leaves=10,
)
_EVENTS = st.tuples(_TYPES, st.dictionaries(_OUTER, _VALUES, max_size=5))
_LINES = st.binary(max_size=60) | _EVENTS.map(lambda pair: json.dumps({"type": pair[0], **pair[1]}).encode())
CHANNELS: tuple[Channel, ...] = ("stdout", "stderr", "bridge")


@settings(max_examples=200, deadline=None)
@given(source=st.lists(_LINES, max_size=8), name=st.sampled_from(names()))
def test_nothing_crashes(source: list[bytes], name: str) -> None:
    watcher = watch(name)
    for channel in CHANNELS:
        feed(watcher, source, channel)
    harness = get(name)
    outcome = harness.read(source, source, source, None, now=NOW)
    assert outcome.kind in OutcomeClass
    for line in source:
        harness.render(line)
