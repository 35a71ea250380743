"""Every captured run is classified right: as it is, renamed, cut at any line, and behind another one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dispatcher.harness import get
from dispatcher.harness.saved import judge
from dispatcher.task import ModelEvidence, OutcomeClass, Usage

from .captures import EXPECTED, FOLDER, IN_BETWEEN, NOW, harness_of, lines, read

NAMES = sorted(EXPECTED)
STREAMS = [name for name in NAMES if lines(name, "stdout")]


def test_no_capture_is_forgotten() -> None:
    found = {f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.*")}
    assert found == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_class(name: str) -> None:
    outcome = read(name)
    assert outcome.kind is EXPECTED[name]
    assert outcome.positive == (outcome.kind is OutcomeClass.COMPLETED)
    assert outcome.reason
    if outcome.kind is not OutcomeClass.LOST:
        assert outcome.proof


@pytest.mark.parametrize("name", NAMES)
def test_the_content_tells_which_cli_it_was(name: str) -> None:
    mixed = [*lines(name, "stderr"), *lines(name, "stdout"), *lines(name, "events")]
    found = judge(mixed, NOW)
    assert found is not None
    assert found.harness == harness_of(name)
    assert found.outcome.kind is EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_cut_at_any_line(name: str) -> None:
    """A prefix is a run that lost its end: it may say less, but nothing else."""
    allowed = {EXPECTED[name], OutcomeClass.LOST} | IN_BETWEEN.get(name, set())
    whole = [*lines(name, "events"), *lines(name, "stdout"), *lines(name, "stderr")]
    for end in range(len(whole) + 1):
        found = judge(whole[:end], NOW)
        assert found is None or found.outcome.kind in allowed, end
        cut = [*whole[:end], whole[end][: len(whole[end]) // 2]] if end < len(whole) else whole
        found = judge(cut, NOW)
        assert found is None or found.outcome.kind in allowed | {OutcomeClass.UNKNOWN}, end


@pytest.mark.parametrize("second", STREAMS)
def test_behind_another_run_the_later_one_is_judged(second: str) -> None:
    for first in STREAMS[:: 1 + len(STREAMS) // 12]:
        found = judge([*lines(first, "stdout"), *lines(second, "stdout"), *lines(second, "stderr")], NOW)
        assert found is not None
        assert found.harness == harness_of(second)
        assert found.outcome.kind is EXPECTED[second], first


def test_a_file_of_something_else_is_no_transcript() -> None:
    assert judge([b"hello", b'{"name": "x"}', b"429 Too many requests", b"\xff\xfe"], NOW) is None


def test_what_a_success_says() -> None:
    outcome = read("claude/ok-stream")
    assert outcome.final_text == "Done: wrote hello.txt and committed it."
    assert outcome.session_id == "8bb4f332-cef6-44c7-b3eb-0d7e258911d1"
    assert (outcome.usage.input, outcome.usage.output) == (3000, 150)
    assert (outcome.usage.cache_read, outcome.usage.cache_write) == (900, 600)
    assert outcome.usage.cost_usd == pytest.approx(0.01377)
    assert (outcome.observed_model, outcome.model_evidence) == ("claude-sonnet-4-5", ModelEvidence.CONFIRMED)
    assert outcome.tool_calls == 2
    other = read("opencode/ok")
    assert other.final_text == "Done with the work."
    assert other.session_id == "ses_dd8af2486ffeoK8bx56FF7KW6k"
    assert (other.usage.input, other.usage.output) == (3600, 102)
    assert other.usage.cost_usd == pytest.approx(0.003804)
    assert (other.observed_model, other.model_evidence) == (None, ModelEvidence.UNVERIFIED)


@pytest.mark.parametrize("name", ["claude/mt-res", "claude/k9-bash-res", "claude/term-bash-res", "claude/q-res"])
def test_a_resumed_run_is_charged_once(name: str) -> None:
    """claude 2.1.332 counts its totals over the whole session; only what this run added is this attempt's."""
    usage = read(name).usage
    assert (usage.input, usage.output) == (1000, 50)
    assert usage.cost_usd == pytest.approx(0.00459)


def test_two_results_are_not_counted_twice() -> None:
    assert read("claude/bg-6s").usage.cost_usd == pytest.approx(0.01377)


def test_a_killed_run_of_which_only_the_stream_is_left_knows_its_input() -> None:
    outcome = read("claude/sig-kill")
    assert (outcome.usage.input, outcome.usage.output, outcome.usage.cost_usd) == (2000, None, None)
    assert (outcome.usage.cache_read, outcome.usage.cache_write) == (600, 400)
    assert outcome.notes == (
        "tokens are partial: it ended without a result; counted: what went in; its cost is unknown",
    )
    empty = get("claude").read(lines("claude/sig-kill", "stdout")[:1], (), (), None, now=NOW)
    assert (empty.usage, empty.notes) == (Usage(), ())


def recorded(answer: str, output: int, *, end: bool = True, more: int = 0) -> bytes:
    """A line of claude's own record; the pieces of one answer repeat its usage."""
    usage = {"input_tokens": 1000 + more, "output_tokens": output, "cache_read_input_tokens": 300}
    usage["cache_creation_input_tokens"] = 200
    message = {"id": answer, "model": "claude-sonnet-4-5", "stop_reason": "tool_use" if end else None, "usage": usage}
    return json.dumps({"type": "assistant", "message": message, "sessionId": "s"}).encode()


@pytest.mark.parametrize(
    ("record", "output", "counted"),
    [
        ([("msg_fake0001", 50), ("msg_fake0002", 60)], 110, "2 of 2"),
        ([("msg_fake0001", 50), ("msg_fake0001", 50), ("msg_fake0002", 60)], 110, "2 of 2"),  # in pieces
        ([("msg_fake0001", 50)], 50, "1 of 2"),  # the record lags behind the stream
        ([("msg_of_the_run_before", 999), ("msg_fake0001", 50)], 50, "1 of 2"),  # a resumed session
    ],
)
def test_a_killed_run_is_counted_from_claudes_own_record(
    record: list[tuple[str, int]], output: int, counted: str
) -> None:
    session = [b'{"type":"user"}', b"torn {", *(recorded(answer, tokens) for answer, tokens in record)]
    stdout = lines("claude/sig-kill", "stdout")
    outcome = get("claude").read(stdout, (), (), None, now=NOW, session=session)
    assert (outcome.usage.input, outcome.usage.output, outcome.usage.cost_usd) == (2000, output, None)
    assert (outcome.usage.cache_read, outcome.usage.cache_write) == (600, 400)
    assert f"counted: {counted} answers, from claude's own record" in outcome.notes[0]


def test_an_answer_that_was_cut_off_has_no_output_that_anybody_knows() -> None:
    session = [recorded("msg_fake0001", 50), recorded("msg_fake0002", 1, end=False)]
    outcome = get("claude").read(lines("claude/sig-kill", "stdout"), (), (), None, now=NOW, session=session)
    assert (outcome.usage.input, outcome.usage.output) == (2000, 50)


class Unread:
    def __iter__(self) -> Iterator[bytes]:
        raise AssertionError("the record was read")


def test_a_run_with_a_result_needs_no_record() -> None:
    for name in ("claude/ok-stream", "claude/k9-bash-res", "opencode/ok", "opencode/sigKILL"):
        args = (lines(name, "stdout"), lines(name, "stderr"), ())
        assert get(harness_of(name)).read(*args, None, now=NOW, session=Unread()).usage == read(name).usage


def test_a_killed_run_of_opencode_is_counted_up_to_its_last_whole_answer() -> None:
    """It tells of an answer when its tools are through; the one in which it was killed is unknown, and that is said."""
    for name in ("opencode/sigKILL", "opencode/sigTERM"):
        outcome = read(name)
        assert (outcome.usage.input, outcome.usage.output) == (1200, 34)
        assert outcome.notes == (
            "tokens are partial: the run ended in the middle of an answer; counted: tokens and cost of 1 that ended",
        )
    begun = get("opencode").read(lines("opencode/sigKILL", "stdout")[:1], (), (), None, now=NOW)
    assert begun.usage == Usage(), "unknown is not 0"
    for name in ("opencode/ok", "opencode/429", "opencode/half", "opencode/badargs"):
        assert not [note for note in read(name).notes if note.startswith("tokens are partial")], name


def test_sessions_that_are_gone() -> None:
    gone = {name for name in NAMES if read(name).session_gone}
    assert gone == {"opencode/badsess", "claude/res-unknown", "claude/suf-nomarker"}


def test_denials_are_named() -> None:
    assert read("claude/deny-write").denials == ("Write: /repo/a.txt",)
    assert read("claude/deny-prompts-none").denials == ("Bash: touch x.txt",)
    assert read("opencode/ask").denials == ("bash: git push origin main",)


def test_holds_of_the_subscription() -> None:
    hold = read("claude/rl-oa-429rej").hold
    assert hold is not None
    assert (hold.until, hold.window) == (1795968421.0, "five_hour")
    week = read("claude/rl-oa-429rej7").hold
    assert week is not None
    assert (week.until, week.window) == (1796303221.0, "seven_day")


def test_the_plugin_states_the_reset_to_the_millisecond() -> None:
    free, daily = lines("opencode/session-status-retry", "events")
    for line, until in ((free, 1795997774.233), (daily, 1795960763.670)):
        found = judge([line], NOW)
        assert found is not None
        assert found.outcome.hold is not None
        assert found.outcome.hold.until == pytest.approx(until, rel=0, abs=0.001)
