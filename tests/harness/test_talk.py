"""Work on code about failures is no failure: no word of a model, a tool or a brief is ever taken for an error.

Runs of the real CLIs (made by `tests.harness.talk.generate`), and written ones in both CLIs' formats of two
generations. All of them succeeded; each is read at its end and line by line as it lived.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from dispatcher.harness import get
from dispatcher.harness.base import Channel, SignalKind
from dispatcher.harness.saved import judge
from dispatcher.task import Billing, OutcomeClass

from .captures import NOW
from .talk.generate import RUNS
from .talk.topics import TOPICS

Json = dict[str, object]
ALARMS = frozenset(
    {SignalKind.QUOTA, SignalKind.RETRY, SignalKind.RUNAWAY, SignalKind.MISMATCH, SignalKind.PERMISSION}
    | {SignalKind.APPROVAL}
)
MODELS = {"opencode": "scripted/m1", "claude": "claude-sonnet-5-5"}


@dataclass(frozen=True)
class Talk:
    """One successful run, by channel."""

    name: str
    cli: str
    stdout: tuple[bytes, ...]
    stderr: tuple[bytes, ...] = ()
    bridge: tuple[bytes, ...] = ()


# --- real runs ----------------------------------------------------------------------------------------------------


def real() -> Iterator[Talk]:
    for line in gzip.decompress(RUNS.read_bytes()).decode().splitlines():
        run = json.loads(line)
        channels = {name: tuple(text.encode() for text in run[name]) for name in ("stdout", "stderr", "bridge")}
        yield Talk(run["name"], run["cli"], **channels)


# --- written ones -------------------------------------------------------------------------------------------------


def line(**event: object) -> bytes:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def opencode(text: str) -> tuple[bytes, ...]:
    """1.18: the last step_finish is the positive sign. The text is said, written, read, and in a failed call."""

    def event(kind: str, **part: object) -> bytes:
        return line(type=kind, timestamp=int(NOW * 1000), sessionID="ses_1", part={"messageID": "msg_1", **part})

    def tool(number: int, name: str, given: Json, **state: object) -> bytes:
        return event("tool_use", type="tool", tool=name, callID=f"call_{number}", state={**state, "input": given})

    return (
        event("step_start"),
        event("text", text=text),
        tool(1, "write", {"filePath": "a.py", "content": text}, status="completed", output="Wrote file."),
        tool(2, "bash", {"command": "cat a.py"}, status="completed", output=text, metadata={"exit": 1}),
        tool(3, "read", {"filePath": text}, status="error", error=f"File not found: {text}"),
        event("step_finish", reason="tool-calls", cost=0, tokens={"input": 1, "output": 1}),
        event("step_start"),
        event("text", text=f"Done. {text}"),
        event("step_finish", reason="stop", cost=0, tokens={"input": 1, "output": 1}),
    )


def opencode_with_an_end(text: str) -> tuple[bytes, ...]:
    """Builds that close the stream with an event of its own."""
    return (*opencode(text), line(type="done", sessionID="ses_1", reason="idle", rejected=[]))


def claude(text: str) -> tuple[bytes, ...]:
    """2.1.332: a result with is_error false is the positive sign."""

    def assistant(number: int, **content: object) -> bytes:
        message = {"id": f"msg_{number}", "role": "assistant", "model": MODELS["claude"], "content": [content]}
        return line(type="assistant", message=message, parent_tool_use_id=None, session_id="s")

    def answer(number: int, content: object, failed: bool = False) -> bytes:
        part = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": content, "is_error": failed}
        return line(type="user", message={"role": "user", "content": [part]}, session_id="s", tool_use_result=content)

    def call(number: int, name: str, **given: object) -> bytes:
        return assistant(number, type="tool_use", id=f"toolu_{number}", name=name, input=given)

    end = {"terminal_reason": "completed", "stop_reason": "end_turn", "num_turns": 5, "api_error_status": None}
    return (
        line(type="system", subtype="init", session_id="s", model=MODELS["claude"], apiKeySource="ANTHROPIC_API_KEY"),
        assistant(1, type="text", text=text),
        call(2, "Write", file_path="a.py", content=text),
        answer(2, "File created successfully"),
        call(3, "Bash", command=f"cat a.py # {text}"),
        answer(3, [{"type": "text", "text": text}]),
        call(4, "Read", file_path=text),
        answer(4, f"File does not exist: {text}", failed=True),
        assistant(5, type="text", text=f"Done. {text}"),
        line(type="result", subtype="success", is_error=False, result=f"Done. {text}", session_id="s", **end),
    )


def claude_of_the_generation_before(text: str) -> tuple[bytes, ...]:
    """2.1.197 and older: the type comes last in no event, and the result knows neither api_error nor its reason."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"is_error": False, "duration_api_ms": 94, "num_turns": 3, "stop_reason": "end_turn", "session_id": "s"}
    *before, _ = claude(text)
    return (*before, line(type="result", subtype="success", result=text, usage=usage, permission_denials=[], **head))


FORMATS: dict[str, Callable[[str], tuple[bytes, ...]]] = {
    "opencode": opencode,
    "opencode-done": opencode_with_an_end,
    "claude": claude,
    "claude-old": claude_of_the_generation_before,
}


def written() -> Iterator[Talk]:
    for name, form in FORMATS.items():
        for topic, text in TOPICS.items():
            yield Talk(f"{name}/{topic}", name.partition("-")[0], form(text))


REAL, WRITTEN = list(real()), list(written())
TALKS = pytest.mark.parametrize("talk", [*REAL, *WRITTEN], ids=lambda talk: talk.name)


def test_there_are_enough_of_them() -> None:
    assert len(REAL) >= 30
    assert len(WRITTEN) >= 30
    assert {talk.cli for talk in REAL} == {"opencode", "claude"}
    spoken = b"\n".join(line for talk in REAL for line in talk.stdout).decode()
    for text in TOPICS.values():
        assert json.dumps(text, ensure_ascii=False)[1:-1].split("\\n")[0] in spoken
    assert os.path.getsize(RUNS) < 2_000_000


@TALKS
def test_it_is_a_success(talk: Talk) -> None:
    outcome = get(talk.cli).read(talk.stdout, talk.stderr, talk.bridge, None, now=NOW)
    assert (outcome.kind, outcome.positive, outcome.hold) == (OutcomeClass.COMPLETED, True, None)
    assert outcome.denials == ()
    mixed = judge([*talk.stderr, *talk.stdout, *talk.bridge], NOW)
    assert mixed is not None
    assert (mixed.harness, mixed.outcome.kind) == (talk.cli, OutcomeClass.COMPLETED)


@TALKS
def test_nothing_in_it_raises_an_alarm_while_it_lives(talk: Talk) -> None:
    watch = get(talk.cli).watch(MODELS[talk.cli], Billing.METERED)
    channels: tuple[tuple[Channel, tuple[bytes, ...]], ...] = (
        ("bridge", talk.bridge),
        ("stderr", talk.stderr),
        ("stdout", talk.stdout),
    )
    signals = [signal for channel, lines in channels for text in lines for signal in watch.feed(channel, text, NOW)]
    assert [signal for signal in signals if signal.kind in ALARMS or signal.outcome is not None] == []
    assert signals[-1].kind is SignalKind.FINISHED


@TALKS
def test_cut_in_the_middle_it_is_lost_and_nothing_worse(talk: Talk) -> None:
    """What it talked about last does not become the reason why it ended."""
    for end in range(len(talk.stdout)):
        outcome = get(talk.cli).read(talk.stdout[:end], talk.stderr, talk.bridge, None, now=NOW)
        ended = talk.name.startswith("opencode-done/") and end == len(talk.stdout) - 1  # only its last event is missing
        assert outcome.kind is (OutcomeClass.COMPLETED if ended else OutcomeClass.LOST), (end, outcome.reason)
        assert outcome.hold is None
