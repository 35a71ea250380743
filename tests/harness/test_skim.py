"""Skimming over a stream leads to what looking at each of its lines leads to, wherever it is cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.harness import get
from dispatcher.harness.base import Channel, Signal, SignalKind, Watch
from dispatcher.supervisor.clocks import Clocks
from dispatcher.task import Billing

from .captures import EXPECTED, NOW, harness_of, lines

K = SignalKind
MODELS = {"opencode": "fake/m1", "claude": "claude-sonnet-5-5"}
MOVES = frozenset({K.PROGRESS, K.TOOL_STARTED, K.TOOL_ENDED})
SESSION = "00000000-0000-4000-8000-000000000001"


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def opencode_event(kind: str, **part: object) -> bytes:
    return dump({"type": kind, "timestamp": 1795956528563, "sessionID": "ses_1", "part": part})


def opencode_call(number: int, status: str, output: str = "fine", tool: str = "bash") -> bytes:
    state = {"status": status, "input": {"command": "x"}, "error" if status == "error" else "output": output}
    return opencode_event("tool_use", type="tool", tool=tool, callID=f"call_{number}", state=state)


def claude_call(
    number: int, message: int, *, model: str = MODELS["claude"], child: bool = False, **given: Any
) -> bytes:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": given}
    head: dict[str, object] = {"id": f"msg_{message}", "type": "message", "role": "assistant", "model": model}
    if message % 2:
        head = {"model": model, "id": f"msg_{message}", "type": "message", "role": "assistant"}
    more = [call, {**call, "id": f"toolu_{number}_b"}] if given.get("twice") else [call]
    body = {**head, "content": more, "stop_reason": None}
    parent = "toolu_9" if child else None
    return dump({"type": "assistant", "message": body, "parent_tool_use_id": parent, "session_id": SESSION})


def claude_result(number: int, failed: bool | None, text: str = "fine", *, first: bool = True) -> bytes:
    part: dict[str, object] = {"type": "tool_result", "content": text} | (
        {} if failed is None else {"is_error": failed}
    )
    name: dict[str, object] = {"tool_use_id": f"toolu_{number}"}
    content = [{**name, **part} if first else {**part, **name}]
    return dump({"type": "user", "message": {"role": "user", "content": content}, "session_id": SESSION})


numbers = st.integers(0, 3)
texts = st.sampled_from(['"is_error":true', "a\nb", '"tool_use"', "x" * 3000, "Exit code 1"])
garbage = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")) | st.sampled_from(
    [b"", b"{", b'{"type":"tool_use"', b'{"type":"user","message":{"role":"user","content":[{"tool_use_id":"to']
)
OPENCODE = st.one_of(
    st.just(opencode_event("step_start", type="step-start")),
    st.sampled_from(["tool-calls", "unknown", "stop"]).map(lambda word: opencode_event("step_finish", reason=word)),
    texts.map(lambda text: opencode_event("text", type="text", text=text)),
    st.just(opencode_event("text", synthetic=True, metadata={"compaction_continue": True})),
    st.builds(opencode_call, numbers, st.sampled_from(["completed", "completed", "error", "running"]), texts),
    st.just(dump({"type": "error", "sessionID": "ses_1", "error": {"name": "ContextOverflowError"}})),
    garbage,
)
CLAUDE = st.one_of(
    st.builds(claude_call, numbers, numbers, child=st.booleans(), command=texts),
    st.builds(claude_call, numbers, numbers, command=texts),
    st.builds(claude_call, numbers, numbers, twice=st.booleans()),
    st.builds(claude_call, numbers, numbers, model=st.sampled_from(["claude-haiku-4-5", "<synthetic>"])),
    st.builds(claude_result, numbers, st.sampled_from([True, False, None]), texts, first=st.booleans()),
    st.builds(claude_result, numbers, st.just(True)),
    st.just(dump({"type": "system", "subtype": "compact_boundary", "session_id": SESSION})),
    st.just(dump({"type": "result", "is_error": False, "result": "done", "session_id": SESSION})),
    garbage,
)
INIT = dump({"type": "system", "subtype": "init", "session_id": SESSION, "model": MODELS["claude"]})


class Heard:
    """A watch with the clocks that it moves and the rare signals that it gave."""

    def __init__(self, name: str) -> None:
        self.watch: Watch = get(name).watch(MODELS[name], Billing.FREE)
        self.clocks = Clocks(start=20, stall=60, hard_cap=300, grace=10, mono=0, wall=0, plain=False)
        self.rare: list[Signal] = []
        self.skimmed = 0

    def obey(self, signals: Sequence[Signal]) -> None:
        for signal in signals:
            if signal.kind is K.TOOL_STARTED:
                self.clocks.tool_started(signal.text)
            elif signal.kind is K.TOOL_ENDED:
                self.clocks.tool_ended(signal.text)
            elif signal.kind is K.FINISHED:
                self.clocks.finished()
            elif signal.kind is K.PROGRESS:
                self.clocks.heard()
            self.rare += [signal] if signal.kind not in MOVES else []

    def lines(self, channel: Channel, block: bytes) -> None:
        for line in block.split(b"\n")[:-1]:
            self.obey(self.watch.feed(channel, line, NOW))

    def block(self, channel: Channel, block: bytes, end: int) -> None:
        start = 0
        while start < end:
            begun = start
            start, signals = self.watch.skim(channel, block, start, end, NOW)
            self.skimmed += start - begun
            self.obey(signals)
            if start < end:
                stop = block.index(b"\n", start)
                self.obey(self.watch.feed(channel, block[start:stop], NOW))
                start = stop + 1
        assert start == end

    def state(self) -> dict[str, object]:
        inner = {key: value for key, value in vars(self.watch).items() if key != "_runaway"}
        return {
            **inner,
            "runaway": vars(vars(self.watch)["_runaway"]),
            "open": self.clocks.tool_open,
            "calls": sorted(vars(self.clocks)["_tools"]),
            "finished": self.clocks.is_finished,
            "rare": self.rare,
        }


def check(name: str, stream: Sequence[bytes], cuts: Sequence[int]) -> Heard:
    """The same stream read line by line, and in blocks that are cut at these lines with more bytes behind them."""
    slow, quick = Heard(name), Heard(name)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        block = b"".join(line + b"\n" for line in stream[begin:end])
        behind = b"".join(line + b"\n" for line in stream[end:])[:5000]
        slow.lines("stdout", block)
        quick.block("stdout", block + behind, len(block))
        assert slow.state() == quick.state()
    return quick


cuts = st.lists(st.integers(0, 1000), max_size=4)


@settings(max_examples=120, deadline=None)
@given(st.lists(OPENCODE, max_size=40), cuts)
def test_opencode(stream: list[bytes], cuts: list[int]) -> None:
    check("opencode", [opencode_event("step_start", type="step-start"), *stream], cuts)


@settings(max_examples=250, deadline=None)
@given(st.lists(CLAUDE, max_size=60), cuts)
def test_claude(stream: list[bytes], cuts: list[int]) -> None:
    check("claude", [INIT, *stream], cuts)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(numbers, st.sampled_from([True, True, True, False])), max_size=60), cuts)
def test_rows_of_failures_of_claude(ended: list[tuple[int, bool]], cuts: list[int]) -> None:
    """Whatever was skimmed over before them, the row that counts is told at the line that completes it."""
    stream = [INIT]
    for place, (number, failed) in enumerate(ended):
        stream += [claude_call(place % 4, place, command=number), claude_result(place % 4, failed)]
    check("claude", stream, cuts)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_captures(name: str) -> None:
    for count in range(1, 6):
        check(harness_of(name), lines(name, "stdout"), range(0, 1000, count))


def test_a_tools_output_is_not_looked_at() -> None:
    """What makes it cheap: of a healthy run nothing but the first lines and the last one is read in full."""
    text = "x" * 5000
    calls = [line for n in range(50) for line in (claude_call(n, n, path="a"), claude_result(n, False, text))]
    assert check("claude", [INIT, *calls], []).skimmed > 250_000
    steps = [opencode_event("step_start"), *(opencode_call(n, "completed", text) for n in range(50))]
    assert check("opencode", steps, []).skimmed > 240_000
