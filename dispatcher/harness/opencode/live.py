"""What a run of opencode tells while it lives, line by line; most of a stream is skimmed over without being parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from dispatcher import failures
from dispatcher.failures import ErrorChannel
from dispatcher.harness import events, stderr
from dispatcher.harness.base import Channel, Signal, SignalKind
from dispatcher.harness.opencode.said import ENDED_WELL, GOES_ON, SIDE_AGENTS, bridge_record, channel_of, retry_channel
from dispatcher.harness.runaway import Runaway
from dispatcher.task import HoldRequest, HoldScope, OutcomeClass

_QUOTA = frozenset({OutcomeClass.QUOTA_EXHAUSTED, OutcomeClass.RATE_LIMITED})
_TOOL_ENDED = SignalKind.TOOL_ENDED  # looking it up costs more than making the signal (CPython 3.11)
_SESSION = re.compile(rb'"sessionID"\s*:\s*"([^"]{1,100})"')
_CALL = re.compile(rb'"callID"\s*:\s*"([^"]{1,200})"')
_STATE = re.compile(rb'"state"\s*:\s*\{\s*"status"\s*:\s*"(\w+)"')
_HEAD = 4096  # bytes of a line in which its own fields are looked for
_REASON = re.compile(rb'"reason"\s*:\s*"([^"]{1,40})"')
_STEP = re.compile(rb'\{"type": ?"(?:(?P<begins>step_start)|(?P<ends>step_finish)|(?P<says>text))"')


class OpencodeWatch:
    """State of one run as its lines arrive."""

    def __init__(self, model: str, zone: str) -> None:
        self._model = model
        self._zone = zone
        self._session = ""
        self._started = False
        self._plugin = False
        self._seen_model = ""
        self._open: set[bytes] = set()  # calls
        self._runaway = Runaway()

    @property
    def detection(self) -> str:
        """What would show a rate limit: the plugin, or only the ERROR log."""
        return "plugin" if self._plugin else "log"

    def feed(self, channel: Channel, line: bytes, now: float) -> Sequence[Signal]:
        if channel == "stdout":
            return self._stdout(line, now)
        return self._bridge(line, now) if channel == "bridge" else self._stderr(line, now)

    def skim(self, channel: Channel, block: bytes, start: int, end: int, now: float) -> tuple[int, Sequence[Signal]]:
        """Calls that ended well, and steps that go on; a signal for each call that was open, and for the last one."""
        if channel != "stdout" or not self._session:
            return start, ()
        begun, worked, alarms = start, False, list[Signal]()
        ended, call = dict[bytes, None](), b""
        while start < end:
            if match := ENDED_WELL.match(block, start):
                stop, worked, call = block.find(b"\n", match.end()), True, match["call"]
                if call in self._open:
                    self._open.discard(call)
                    ended[call] = None
            else:
                stop = block.find(b"\n", start)
                if not (match := _STEP.match(block, start)) or not self._goes_on(match.lastgroup, block, start, stop):
                    break
                if worked:
                    self._runaway.tool_succeeded()
                    worked = False
                if match.lastgroup == "begins":
                    alarms += self._runs_away(self._runaway.step(), now)
            start = stop + 1
        if worked:
            self._runaway.tool_succeeded()
        if call:
            ended[call] = None
        signals = [Signal(_TOOL_ENDED, now, one.decode("utf-8", "replace")) for one in ended]
        if not signals and start > begun:
            signals.append(Signal(SignalKind.PROGRESS, now, "step"))
        return start, signals + alarms

    def _goes_on(self, kind: str | None, block: bytes, start: int, stop: int) -> bool:
        """Whether nothing but progress is in such a line."""
        if kind == "ends":
            reason = events.at_key(b'"reason"', _REASON, block, start, stop)
            return reason is not None and reason[1] == b"tool-calls"
        return kind == "begins" or block.find(b'"compaction_continue"', start, stop) < 0

    def _stdout(self, line: bytes, now: float) -> list[Signal]:
        kind = events.kind_of(line)
        if not kind:
            return []
        signals = [] if self._started else [Signal(SignalKind.STARTED, now)]
        self._started = True
        if not self._session and (match := _SESSION.search(line, 0, _HEAD)):
            self._session = match[1].decode("utf-8", "replace")
            signals.append(Signal(SignalKind.SESSION, now, self._session))
        if kind == "step_start":
            signals += [Signal(SignalKind.PROGRESS, now, kind), *self._runs_away(self._runaway.step(), now)]
        elif kind == "tool_use":
            signals += self._tool(line, now)
        elif kind == "step_finish":
            signals += self._finish(line, now)
        elif kind == "error":
            signals += self._error(line, now)
        elif kind == "done":
            signals.append(Signal(SignalKind.FINISHED, now, kind))
        elif kind == "text" and b'"compaction_continue"' in line:
            signals += [
                Signal(SignalKind.PROGRESS, now, "compaction"),
                *self._runs_away(self._runaway.compaction(), now),
            ]
        else:
            signals.append(Signal(SignalKind.PROGRESS, now, kind))
        return signals

    def _tool(self, line: bytes, now: float) -> list[Signal]:
        """opencode 1.18 prints a call when it has ended; other versions print it before, too."""
        call = _CALL.search(line, 0, _HEAD)
        signals = [Signal(SignalKind.PROGRESS, now, "tool_use")]
        status = _STATE.search(line, 0, _HEAD)
        is_open = status is not None and status[1] in (b"pending", b"running")
        if call:
            kind = SignalKind.TOOL_STARTED if is_open else _TOOL_ENDED
            (self._open.add if is_open else self._open.discard)(call[1])
            signals.append(Signal(kind, now, call[1].decode("utf-8", "replace")))
        if is_open:
            return signals + self._asks(events.string(events.obj(events.parse(line), "part").get("tool")), now)
        if status and status[1] != b"error":
            self._runaway.tool_succeeded()
            return signals
        part = events.obj(events.parse(line), "part")
        state = events.obj(part, "state")
        if state.get("status") != "error":
            self._runaway.tool_succeeded()
            return signals
        signature = hash((json.dumps(state.get("input"), sort_keys=True), events.string(state.get("error"))[:500]))
        return signals + self._runs_away(self._runaway.tool_failed(events.string(part.get("tool")), signature), now)

    def _finish(self, line: bytes, now: float) -> list[Signal]:
        match = events.at_key(b'"reason"', _REASON, line)
        reason = match[1].decode("utf-8", "replace") if match else ""
        if reason not in GOES_ON:
            return [Signal(SignalKind.FINISHED, now, reason)]
        signals = [Signal(SignalKind.PROGRESS, now, "step_finish")]
        return signals + (self._runs_away(self._runaway.unfinished(), now) if reason == "unknown" else [])

    def _error(self, line: bytes, now: float) -> list[Signal]:
        channel = channel_of(events.obj(events.parse(line), "error"))
        found = failures.classify(channel, now, default_zone=self._zone)
        signals = [Signal(SignalKind.PROGRESS, now, "error")]
        if found is None:
            return signals
        if found.kind is OutcomeClass.CONTEXT_OVERFLOW:
            return signals + self._runs_away(self._runaway.overflow(), now)
        if found.kind in _QUOTA:
            signals.append(Signal(SignalKind.QUOTA, now, found.proof, found.kind, found.hold))
        return signals

    def _stderr(self, line: bytes, now: float) -> list[Signal]:
        """The fallback for a plugin that did not load. Beside the plugin the log is late and knows less."""
        if b"ERROR" not in line and b"auto-rejecting" not in line and b"asking id=per_" not in line:
            return []
        found = stderr.read_line(line)
        if found is None:
            return []
        if "auto-rejecting" in found.text or "asking id=per_" in found.text:
            return [Signal(SignalKind.PERMISSION, now, found.text[:500], OutcomeClass.PERMISSION_DENIED)]
        finding = failures.classify(ErrorChannel("opencode", log_lines=(found.text,)), now)
        signals = self._saw_model(found.model, "", now) if found.model else []
        if self._plugin or not found.log or finding is None:
            return signals
        return [*signals, Signal(SignalKind.RETRY, now, finding.proof, finding.kind, finding.hold)]

    def _bridge(self, line: bytes, now: float) -> list[Signal]:
        record = bridge_record(line)
        kind = events.string(record.get("type"))
        if kind == "started":
            self._plugin = True
            return [Signal(SignalKind.STARTED, now, "plugin")]
        if kind == "gate_ready":
            return [Signal(SignalKind.GATE_READY, now)]
        if kind == "gate_refused":
            return [Signal(SignalKind.GATE_REFUSED, now, events.shorten(events.string(record.get("reason")), 500))]
        if kind == "call":
            model = f"{events.string(record.get('provider'))}/{events.string(record.get('model'))}"
            return self._saw_model(model, events.string(record.get("agent")), now)
        if kind in ("tool_started", "tool_ended"):
            signal = SignalKind.TOOL_STARTED if kind == "tool_started" else _TOOL_ENDED
            call = events.string(record.get("call"))
            (self._open.add if kind == "tool_started" else self._open.discard)(call.encode("utf-8", "replace"))
            asks = self._asks(events.string(record.get("tool")), now) if kind == "tool_started" else []
            return [Signal(signal, now, call), *asks]
        if kind == "asked":
            text = f"permission asked: {events.string(record.get('permission'))}"
            return [Signal(SignalKind.PERMISSION, now, text, OutcomeClass.PERMISSION_DENIED)]
        return self._retry(record, now) if kind == "retry" else []

    def _asks(self, tool: str, now: float) -> list[Signal]:
        """The tool that asks a person waits for ever where there is none."""
        text = "the model asked a person a question"
        return [Signal(SignalKind.PERMISSION, now, text, OutcomeClass.PERMISSION_DENIED)] if tool == "question" else []

    def _retry(self, record: Mapping[str, object], now: float) -> list[Signal]:
        channel, wait = retry_channel(record)
        found = failures.classify(channel, now, default_zone=self._zone)
        kind = found.kind if found else OutcomeClass.UNKNOWN
        return [
            Signal(
                SignalKind.RETRY, now, events.shorten(channel.message, 500), kind, found.hold if found else None, wait
            )
        ]

    def _saw_model(self, model: str, agent: str, now: float) -> list[Signal]:
        if agent in SIDE_AGENTS or model == self._seen_model:
            return []
        self._seen_model = model
        signals = [Signal(SignalKind.MODEL, now, model)]
        if model != self._model:
            text = f"{model} was called instead of {self._model}"
            hold = HoldRequest(HoldScope.CANDIDATE, None, text)
            signals.append(Signal(SignalKind.MISMATCH, now, text, OutcomeClass.MODEL_MISMATCH, hold))
        return signals

    def _runs_away(self, evidence: str | None, now: float) -> list[Signal]:
        return [Signal(SignalKind.RUNAWAY, now, evidence, OutcomeClass.RUNAWAY)] if evidence else []
