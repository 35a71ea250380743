"""Lines of a worker -> signals of its harness -> clocks, facts for the record, or a reason to end the tree.

Loaded when the worker has lived for a moment: it brings the translators and the vocabulary, which take longer to import
than the supervisor takes to start. A translator that fails must not cost the worker its supervision: the clocks go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dispatcher.harness.base import Channel, Signal, SignalKind, Watch
from dispatcher.supervisor.clocks import Clocks
from dispatcher.supervisor.reactions import End, Leave, react
from dispatcher.supervisor.supervise import Reason
from dispatcher.task import Billing, EndReason, OutcomeClass

NOTES = 20
CHANNELS: dict[str, Channel] = {"stdout": "stdout", "stderr": "stderr", "bridge.jsonl": "bridge"}


class Wants(Protocol):
    """What is read of the attempt's specification."""

    def __getattr__(self, name: str) -> Any: ...


class Listener:
    def __init__(self, spec: Wants, notes: list[str]) -> None:
        self.spec = spec
        self.notes = notes
        self.detection: str = spec.detection
        self.model: str | None = None
        self.session: str | None = None
        self.gate_ready = not spec.gate_required
        self.ungated: Reason | None = None  # the first sign of a worker that went on without its gate
        self.watch: Watch | None = None
        self._skims = True
        try:
            from dispatcher import harness

            reader = harness.get(spec.harness, getattr(spec, "zone", "UTC"))
            self.watch = reader.watch(spec.model, Billing(spec.billing), overage=spec.overage)
        except Exception as error:  # supervision goes on without live detection
            notes.append(f"live detection is off: {type(error).__name__}: {error}")

    def feed_block(self, file: str, block: bytes, end: int, now: float, clocks: Clocks) -> Reason | None:
        """The whole lines before `end`. What the translator cannot skim over comes to it line by line."""
        reason: Reason | None = None
        start = 0
        while start < end:
            start, found = self._skim(file, block, start, end, now, clocks)
            reason = reason or found
            if start < end:
                stop = block.find(b"\n", start)
                found = self.feed(file, block[start:stop], now, clocks)
                reason = reason or found
                start = stop + 1
        return reason

    def _skim(
        self, file: str, block: bytes, start: int, end: int, now: float, clocks: Clocks
    ) -> tuple[int, Reason | None]:
        if self.watch is None or not self._skims:
            return start, None
        channel = CHANNELS[file]
        try:
            start, signals = self.watch.skim(channel, block, start, end, now)
        except Exception as error:  # the slow way has to do
            self._skims = False
            self.notes.append(f"{file} is read line by line: {type(error).__name__}: {error}"[:300])
            return start, None
        return start, self._obey_all(channel, signals, clocks)

    def feed(self, file: str, line: bytes, now: float, clocks: Clocks) -> Reason | None:
        if self.watch is None:
            return None
        channel = CHANNELS[file]
        try:
            signals = self.watch.feed(channel, line, now)
        except Exception as error:  # one line that the translator cannot take
            if len(self.notes) < NOTES:
                self.notes.append(f"a line of {file} was not understood: {type(error).__name__}: {error}"[:300])
            return None
        return self._obey_all(channel, signals, clocks)

    def _obey_all(self, channel: Channel, signals: Sequence[Signal], clocks: Clocks) -> Reason | None:
        reason = None
        for signal in signals:
            reason = reason or self._obey(channel, signal, clocks)
        return reason

    def _obey(self, channel: Channel, signal: Signal, clocks: Clocks) -> Reason | None:
        kind = signal.kind
        if kind is SignalKind.SESSION:
            self.session = signal.text
        elif kind is SignalKind.MODEL:
            self.model = signal.text
        elif kind is SignalKind.GATE_READY:
            self.gate_ready = True
        elif kind is SignalKind.GATE_REFUSED:
            return self._unproved(f"the approval gate stays shut: {signal.text}")
        elif kind is SignalKind.STARTED:
            if channel == "bridge":
                self.detection = "plugin"
            clocks.alive()
        elif kind is SignalKind.TOOL_STARTED:
            clocks.tool_started(signal.text)
            return self._unproved("a tool was called before the approval gate had reported itself")
        elif kind is SignalKind.TOOL_ENDED:
            clocks.tool_ended(signal.text)
            return self._unproved("a tool was called, but the approval gate never reported itself")
        elif kind is SignalKind.PROGRESS:
            clocks.heard()
        elif kind is SignalKind.FINISHED:
            clocks.finished()
            if signal.outcome is None:  # an error comes before any gate
                return self._unproved("the run went on without the approval gate")
        else:
            return self._react(signal, clocks)
        return None

    def _unproved(self, words: str) -> Reason | None:
        """A gate that is not proved to be active stops the run, and a person is told: the next one would fare alike."""
        if self.gate_ready:
            return None
        self.ungated = self.ungated or Reason(EndReason.GATE.value, words, OutcomeClass.PERMISSION_DENIED.value)
        return self.ungated

    def _react(self, signal: Signal, clocks: Clocks) -> Reason | None:
        match react(signal, others_free=self.spec.others_free, switch_after=self.spec.switch_after):
            case End(reason, kind, detail, hold):
                plain = None if hold is None else dict(vars(hold))
                return Reason(reason.value, detail, None if kind is None else kind.value, plain)
            case Leave(seconds):
                clocks.excuse(seconds)
        return None
