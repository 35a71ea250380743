"""What a run of claude tells while it lives, line by line; most of a stream is skimmed over without being parsed."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Sequence

from dispatcher import failures
from dispatcher.failures import ErrorChannel
from dispatcher.harness import events
from dispatcher.harness.base import Channel, Signal, SignalKind
from dispatcher.harness.claude.said import RESULT_HEAD, SYNTHETIC, deferred, deferred_text, result_channel
from dispatcher.harness.runaway import SAME_FAILURE, STEPS, Runaway
from dispatcher.task import Billing, HoldRequest, HoldScope, OutcomeClass

_TOOL_USE = re.compile(rb'"type"\s*:\s*"tool_use"\s*,\s*"id"\s*:\s*"([^"]{1,200})"\s*,\s*"name"\s*:\s*"([^"]{1,100})"')
_TOOL_RESULT = re.compile(rb'"tool_use_id"\s*:\s*"([^"]{1,200})"')
_FAILED = re.compile(rb'"is_error"\s*:\s*true')
_MODEL = re.compile(rb'"model"\s*:\s*"([^"]{1,200})"')
_MESSAGE = re.compile(rb'"id"\s*:\s*"([^"]{1,200})"')
_CHILD = re.compile(rb'"parent_tool_use_id"\s*:\s*"')
_HEAD = 2000  # bytes of a line in which the model and the message id are looked for
# The two events that most of a stream consists of, as claude 2.1 writes them: a call's result, and an answer that is
# one call. Servers name the model in one of two places.
_RESULT_MIDDLE = b'","type":"tool_result"'
_QUIET = re.compile(
    re.escape(RESULT_HEAD) + rb'([^"\n]+)' + re.escape(_RESULT_MIDDLE) + rb'|\{"type":"assistant","message":\{(?:'
    rb'"model":"([^"\n]+)","id":"([^"\n]+)","type":"message","role":"assistant"'
    rb'|"id":"([^"\n]+)","type":"message","role":"assistant","model":"([^"\n]+)")'
    rb',"content":\[\{"type":"tool_use","id":"([^"\n]+)","name":"([^"\n]+)"'
)
# What stands behind the message of an answer that no subagent gave: the first that names a `tool_use` after its call.
_OWN = b'},"parent_tool_use_id":null,"session_id":"%b"'
_OWN_WORD = _OWN.index(b"tool_use")
_TOOL_STARTED, _TOOL_ENDED = SignalKind.TOOL_STARTED, SignalKind.TOOL_ENDED  # slow to look up (CPython 3.11)


def same_model(pinned: str, observed: str) -> bool:
    """Whether an observed id is the pinned one: equal, a dated release of it, or the family that an alias names."""
    wanted, seen = pinned.lower().split("[")[0], observed.lower().split("[")[0]
    if wanted == seen or re.fullmatch(re.escape(wanted) + r"[-@]20\d{6}", seen):
        return True
    if re.fullmatch(re.escape(seen) + r"[-@]20\d{6}", wanted):
        return True
    return wanted.isalpha() and wanted in re.split(r"[-./@:]", seen)


class ClaudeWatch:
    """State of one run as its lines arrive."""

    def __init__(self, model: str, billing: Billing, overage: bool, zone: str) -> None:
        self._model = model
        self._billing = billing
        self._overage = overage
        self._zone = zone
        self._session = ""
        self._seen_model = ""
        self._model_now = self._own = b""
        self._message = b""
        self._calls: dict[bytes, _Call] = {}
        self._runaway = Runaway()

    @property
    def detection(self) -> str:
        return "stream"

    def feed(self, channel: Channel, line: bytes, now: float) -> Sequence[Signal]:
        if channel == "bridge":
            ready = b'"gate_ready"' in line
            return [Signal(SignalKind.GATE_READY, now)] if ready else []
        if channel != "stdout":
            return []
        kind = events.kind_of(line)
        if kind == "assistant":
            return self._assistant(line, now)
        if kind == "user":
            return self._user(line, now)
        if kind in ("system", "result", "rate_limit_event"):
            event = events.parse(line)
            if event is not None:
                return self._parsed(kind, event, now)
        if kind == "tool_progress" and b'"heartbeat":true' in line:
            return []  # every 30 s while a tool runs (claude 2.1): the process lives, whether work moves is not said
        return [Signal(SignalKind.PROGRESS, now, kind)] if kind else []

    def skim(self, channel: Channel, block: bytes, start: int, end: int, now: float) -> tuple[int, Sequence[Signal]]:
        """Calls and their results, as long as the model stays the same.

        Whether a result is a failure stands behind all that the tool printed, and only a row of them means something.
        So the newest is looked at when enough have come for a row; a success there makes those before it irrelevant.
        What completes a row is left to `feed`.
        """
        if channel != "stdout" or not self._session:
            return start, ()
        runaway, begun, results = self._runaway, dict[bytes, _Call](), list[_Result]()
        room, steps, most_steps = SAME_FAILURE - runaway.failures, 0, STEPS - runaway.steps
        closed, last, own = list[bytes](), b"", self._own
        while start < end and (match := _QUIET.match(block, start)):
            behind = match.end()
            stop = block.find(b"\n", behind)
            if match.lastindex == 1:
                result = match[1]
                call = begun.pop(result, None)
            else:
                _, model, message, message_first, model_last, result, name = match.groups()
                if (model or model_last) != self._model_now:
                    break
                if not block.startswith(own, block.find(b"tool_use", behind, stop) - _OWN_WORD):
                    break
                if (message or message_first) != self._message:
                    if steps + 1 >= most_steps:
                        break
                    steps += 1
                    self._message = message or message_first
                call, start = (name, block, behind, stop), stop + 1
                if start >= end or not block.startswith(RESULT_HEAD + result + _RESULT_MIDDLE, start):
                    begun[result] = call
                    continue
                stop = block.find(b"\n", start)  # the next line is its result
                begun.pop(result, None)
            if len(results) + 1 >= room:
                if _failed(block, start, stop):
                    if call:
                        begun[result] = call
                    break
                runaway.worked()
                results.clear()
                room = SAME_FAILURE
            before = self._calls.pop(result, _NO_CALL)
            if call:
                last = result
            else:
                call = before
                closed.append(result)
            results.append((start, stop, call))
            steps, most_steps = 0, STEPS
            start = stop + 1
        if results:
            runaway.answered()
            _count_all(runaway, block, results)
        for _ in range(steps):
            runaway.step()
        self._calls.update((id_, _kept(call)) for id_, call in begun.items())
        return start, _told(begun, closed, last, now)

    def _parsed(self, kind: str, event: events.Object, now: float) -> list[Signal]:
        if kind == "rate_limit_event":
            return self._limits(events.obj(event, "rate_limit_info"), now)
        return self._result(event, now) if kind == "result" else self._system(event, now)

    def _system(self, event: events.Object, now: float) -> list[Signal]:
        subtype = events.string(event.get("subtype"))
        if subtype == "init":
            return self._init(event, now)
        if subtype == "api_retry":
            return self._retry(event, now)
        if subtype == "model_fallback":
            return self._saw_model(events.string(event.get("fallback_model")), now)
        signals = [Signal(SignalKind.PROGRESS, now, subtype)]
        if subtype == "compact_boundary":
            signals += self._runs_away(self._runaway.compaction(), now)
        return signals

    def _init(self, event: events.Object, now: float) -> list[Signal]:
        signals = [Signal(SignalKind.STARTED, now, events.string(event.get("claude_code_version")))]
        session = events.string(event.get("session_id"))
        if session and session != self._session:
            self._session = session
            self._own = _OWN % session.encode("utf-8", "replace")
            signals.append(Signal(SignalKind.SESSION, now, session))
        signals += self._saw_model(events.string(event.get("model")), now)
        source = events.string(event.get("apiKeySource"))
        if self._billing is Billing.SUBSCRIPTION and source not in ("", "none"):
            signals.append(self._mismatch(f"apiKeySource is {source}, but the credential is a subscription", now))
        return signals

    def _mismatch(self, text: str, now: float) -> Signal:
        hold = HoldRequest(HoldScope.CREDENTIAL, None, text)
        return Signal(SignalKind.MISMATCH, now, text, OutcomeClass.BILLING_MISMATCH, hold)

    def _limits(self, info: events.Object, now: float) -> list[Signal]:
        """Only a subscription login gets these events (claude 2.1), so that they tell who pays, too."""
        signals = [Signal(SignalKind.PROGRESS, now, f"rate limit {events.string(info.get('status'))}")]
        if self._billing in (Billing.METERED, Billing.CREDIT):
            signals.append(self._mismatch("a subscription answers, but the credential is a metered one", now))
        elif info.get("isUsingOverage") is True and not self._overage:
            signals.append(self._mismatch("isUsingOverage: the plan is used up and money is being spent", now))
        elif failures.window_rejected(info):
            found = failures.classify(ErrorChannel("claude", rate_limit_info=info), now, default_zone=self._zone)
            if found is not None:
                signals.append(Signal(SignalKind.QUOTA, now, found.proof, found.kind, found.hold))
        return signals

    def _retry(self, event: events.Object, now: float) -> list[Signal]:
        """claude 2.1 adds up to a quarter to every wait, its own (0.5, 1, 2, ... 32 s) and a stated one."""
        delay = (events.number(event.get("retry_delay_ms")) or 0.0) / 1000.0
        attempt = max(1, events.integer(event.get("attempt")) or 1)
        own = min(0.5 * 2.0 ** min(attempt - 1, 10), 32.0)
        stated = not own * 0.99 <= delay <= own * 1.26
        wait = float(math.ceil(delay / 1.25)) if stated else None  # servers state whole seconds
        status = events.integer(event.get("error_status"))
        word = events.string(event.get("error"))
        channel = ErrorChannel("claude", status=status, error=word, next_try=now + delay if stated else None)
        found = failures.classify(channel, now, default_zone=self._zone)
        kind = found.kind if found else OutcomeClass.NETWORK if status is None else OutcomeClass.UNKNOWN
        text = f"api_retry {attempt}: {word} {status}"
        return [Signal(SignalKind.RETRY, now, text, kind, found.hold if found else None, wait)]

    def _result(self, event: events.Object, now: float) -> list[Signal]:
        if deferred(event):
            return [Signal(SignalKind.APPROVAL, now, deferred_text(event), OutcomeClass.AWAITING_APPROVAL)]
        if event.get("is_error") is not True:
            return [Signal(SignalKind.FINISHED, now, "result")]
        found = failures.classify(result_channel(event, {}, None), now, default_zone=self._zone)
        text = events.shorten(events.string(event.get("result")))
        kind = found.kind if found else OutcomeClass.UNKNOWN
        return [Signal(SignalKind.FINISHED, now, text, kind, found.hold if found else None)]

    def _assistant(self, line: bytes, now: float) -> list[Signal]:
        signals = [Signal(SignalKind.PROGRESS, now, "assistant")]
        model = _MODEL.search(line, 0, _HEAD)
        child = _is_child(line)
        if model and not child:
            signals += self._saw_model(model[1].decode("utf-8", "replace"), now)
        for match in _TOOL_USE.finditer(line) if b'"tool_use"' in line else ():
            self._calls[match[1]] = _kept((match[2], line, match.end(), len(line)))
            signals.append(Signal(SignalKind.TOOL_STARTED, now, match[1].decode("utf-8", "replace")))
        message = _MESSAGE.search(line, 0, _HEAD)
        if message and message[1] != self._message and not child:
            self._message = message[1]
            signals += self._runs_away(self._runaway.step(), now)
        return signals

    def _user(self, line: bytes, now: float) -> list[Signal]:
        signals = [Signal(SignalKind.PROGRESS, now, "user")]
        match = events.at_key(b'"tool_use_id"', _TOOL_RESULT, line)
        if match is None:
            return signals
        signals.append(Signal(SignalKind.TOOL_ENDED, now, match[1].decode("utf-8", "replace")))
        self._runaway.answered()
        call = self._calls.pop(match[1], _NO_CALL)
        return signals + self._runs_away(_count(self._runaway, call, _failed(line)), now)

    def _saw_model(self, model: str, now: float) -> list[Signal]:
        if not model or model == SYNTHETIC or model == self._seen_model:
            return []
        self._seen_model = model
        self._model_now = model.encode("utf-8", "replace")
        signals = [Signal(SignalKind.MODEL, now, model)]
        if not same_model(self._model, model):
            text = f"{model} answers instead of {self._model}"
            hold = HoldRequest(HoldScope.CANDIDATE, None, text)
            signals.append(Signal(SignalKind.MISMATCH, now, text, OutcomeClass.MODEL_MISMATCH, hold))
        return signals

    def _runs_away(self, evidence: str | None, now: float) -> list[Signal]:
        return [Signal(SignalKind.RUNAWAY, now, evidence, OutcomeClass.RUNAWAY)] if evidence else []


_Call = tuple[bytes, bytes, int, int]  # name; the text, and where in it that stands which follows the name
_Result = tuple[int, int, _Call]  # where its line begins and ends
_NO_CALL: _Call = (b"", b"", 0, 0)


def _kept(call: _Call) -> _Call:
    """Without the block that it came in."""
    name, text, start, stop = call
    follows = text[start : min(stop, start + _HEAD)]
    return name, follows, 0, len(follows)


def _count_all(runaway: Runaway, block: bytes, results: Sequence[_Result]) -> None:
    """Results that cannot complete a row of failures."""
    start, stop, _ = results[-1]
    if not _failed(block, start, stop):
        runaway.worked()
        return
    for start, stop, call in results:
        _count(runaway, call, _failed(block, start, stop))


def _told(begun: Iterable[bytes], closed: Iterable[bytes], last: bytes, now: float) -> list[Signal]:
    """Signals of skimmed lines. Of the calls that began and ended in them only the last one is told."""
    told = [(_TOOL_STARTED, last), (_TOOL_ENDED, last)] if last else []
    told += [(_TOOL_ENDED, call) for call in closed]
    told += [(_TOOL_STARTED, call) for call in begun]
    return [Signal(kind, now, call.decode("utf-8", "replace")) for kind, call in told]


def _failed(text: bytes, start: int = 0, end: int = sys.maxsize) -> bool:
    return events.at_key(b'"is_error"', _FAILED, text, start, end) is not None


def _count(runaway: Runaway, call: _Call, failed: bool) -> str | None:
    if not failed:
        runaway.worked()
        return None
    name, follows, _, _ = _kept(call)
    return runaway.failed(name.decode("utf-8", "replace"), hash(follows.split(b'"stop_reason"')[0]))


def _is_child(line: bytes) -> bool:
    """An event of a subagent. The last such key is the event's own; one before it stands in what a model wrote."""
    place = line.rfind(b'"parent_tool_use_id"')
    return place >= 0 and _CHILD.match(line, place) is not None
