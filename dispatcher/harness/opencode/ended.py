"""How a run of opencode ended, from its whole output: the last step that finishes an answer is the positive sign."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dispatcher.failures import ErrorChannel
from dispatcher.harness import events, stderr
from dispatcher.harness.opencode.said import (
    ENDED_WELL,
    GOES_ON,
    SIDE_AGENTS,
    bridge_record,
    call_text,
    channel_of,
    retry_channel,
)
from dispatcher.harness.runaway import Runaway
from dispatcher.harness.transcript import PARTIAL, Settled, Transcript
from dispatcher.task import ModelEvidence, OutcomeClass, Usage

_DENIED = re.compile(r"The user (has specified a rule which prevents you from|rejected permission to) us")
_OTHER_AGENT = "Falling back to default agent"  # a warning on stderr: the agent that was named does not exist
_GONE = "Session not found"
_TODO = b"todowrite"
_CLOSED_TODO = frozenset({"completed", "cancelled"})


@dataclass
class _Run:
    """One session as stdout tells it. A second session in the same text is a run of its own."""

    session: str = ""
    seen: int = 0  # events
    last_progress: float | None = None  # epoch seconds that the events state
    error: ErrorChannel | None = None
    gone: bool = False  # the session to go on with does not exist: its first event says so
    overflow: bool = False  # the next finish is that of the summary
    finished: str = ""  # reason of the terminal step_finish, while nothing came after it
    text_of: str = ""  # message id of the last text
    text: list[str] = field(default_factory=list)
    answers: int = 0  # that ended, so that what they used is known
    cut_off: bool = False  # in an answer that has not ended yet
    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None


class Reader:
    def __init__(self) -> None:
        self._run = _Run()
        self._found = Transcript()
        self._summaries: set[str] = set()
        self._retry: events.Object | None = None
        self._runaway = Runaway()

    def read(self, stdout: Iterable[bytes], errors: Iterable[bytes], bridge: Iterable[bytes]) -> Transcript:
        for line in bridge:
            self._bridge(line)
        for line in stdout:
            self._event(line)
        run, found = self._run, self._found
        lines = stderr.read_lines(errors, run.last_progress)
        found.events = run.seen
        found.session_id = run.session or None
        found.final_text = "".join(run.text).strip()
        found.usage = _usage(run)
        if run.cut_off and run.error is None:
            ended = f"tokens and cost of {run.answers} that ended" if run.answers else "nothing, so they are unknown"
            found.notes.append(f"{PARTIAL}: the run ended in the middle of an answer; counted: {ended}")
        found.channel = self._channel(lines)
        found.session_gone = run.gone or (not run.seen and any(_GONE in line.text for line in lines))
        found.notes += [events.shorten(line.text) for line in lines if _OTHER_AGENT in line.text]
        logged = next((line.model for line in reversed(lines) if line.model), None)
        if found.observed_model is None and logged is not None:
            found.observed_model, found.model_evidence = logged, ModelEvidence.LOGGED
        if run.finished and run.error is None:
            proof = f"step_finish {run.finished}"
            found.settled = Settled(OutcomeClass.COMPLETED, "the model finished its answer", proof, positive=True)
        return found

    def _channel(self, lines: Sequence[stderr.ErrorLine]) -> ErrorChannel | None:
        """The error event; the plugin's last retry if nothing moved after it; then the log."""
        texts = tuple(line.text for line in lines)
        if self._run.error is not None:
            return replace(self._run.error, log_lines=texts)
        if self._retry is not None and self._waited(self._retry):
            return replace(retry_channel(self._retry)[0], log_lines=texts)
        return ErrorChannel("opencode", log_lines=texts) if texts else None

    def _waited(self, retry: events.Object) -> bool:
        at = events.number(retry.get("at"))
        last = self._run.last_progress
        return last is None or at is None or at / 1000.0 >= last

    def _bridge(self, line: bytes) -> None:
        record = bridge_record(line)
        kind = record.get("type")
        if kind == "call" and record.get("agent") not in SIDE_AGENTS:
            self._found.observed_model = f"{events.string(record.get('provider'))}/{events.string(record.get('model'))}"
            self._found.model_evidence = ModelEvidence.CONFIRMED
        elif kind == "summary":
            self._summaries.add(events.string(record.get("message")))
        elif kind == "retry":
            self._retry = record

    def _event(self, line: bytes) -> None:
        if (match := ENDED_WELL.match(line)) and self._went_well(match):
            return
        kind = events.kind_of(line)
        if not kind:
            return
        event = events.parse(line) or {}
        session = events.string(event.get("sessionID"))
        if session and session != self._run.session:
            self._begin(session)
        run, found = self._run, self._found
        run.seen += 1
        part = events.obj(event, "part")
        if kind in ("step_start", "tool_use", "text") and (at := events.number(event.get("timestamp"))) is not None:
            run.last_progress = at / 1000.0
        handler = {
            "step_start": self._step,
            "text": self._text,
            "tool_use": self._tool,
            "step_finish": self._finish,
        }.get(kind)
        if handler is not None:
            handler(part)
        elif kind == "error":
            run.error = channel_of(events.obj(event, "error"))
            run.gone = run.seen == 1 and run.error.message.startswith(_GONE)
            run.overflow = run.error.error_name == "ContextOverflowError"
            if run.overflow:
                found.runaway = self._runaway.overflow() or found.runaway
            run.finished = ""
        elif kind == "done":
            self._done(event)

    def _went_well(self, match: re.Match[bytes]) -> bool:
        """A call of which only its head matters; what follows, often most of the stream, need not be parsed."""
        run, found = self._run, self._found
        if match["session"] != run.session.encode("utf-8", "replace") or _TODO in (match["tool"], match["tool_behind"]):
            return False
        run.seen += 1
        run.last_progress = int(match["at"]) / 1000.0
        found.tool_calls += 1
        found.last_tool_error = ""
        self._succeeded()
        return True

    def _succeeded(self) -> None:
        """It went on: whatever it was is overcome."""
        run = self._run
        run.finished, run.error, run.overflow = "", None, False
        self._runaway.tool_succeeded()
        self._found.runaway = ""

    def _begin(self, session: str) -> None:
        """Another session: what came before belongs to another run."""
        kept = self._found
        self._run = _Run(session)
        self._runaway = Runaway()
        self._found = Transcript(observed_model=kept.observed_model, model_evidence=kept.model_evidence)

    def _step(self, part: events.Object) -> None:
        self._run.finished, self._run.cut_off = "", True
        self._found.runaway = self._runaway.step() or self._found.runaway

    def _text(self, part: events.Object) -> None:
        run = self._run
        if part.get("synthetic") is True:
            run.finished = ""
            return
        self._found.last_tool_error = ""
        message = events.string(part.get("messageID"))
        if message != run.text_of:
            run.text_of, run.text = message, []
        run.text.append(events.string(part.get("text")))

    def _tool(self, part: events.Object) -> None:
        found, state = self._found, events.obj(part, "state")
        found.tool_calls += 1
        self._run.finished = ""
        failed = events.string(state.get("error")) if state.get("status") == "error" else ""
        found.last_tool_error = failed
        if not failed:
            self._succeeded()
        if _DENIED.match(failed):  # from its start: the rest of an error may hold any words
            found.denials.append(call_text(part))
        if part.get("tool") == _TODO.decode():
            todos = events.items(events.obj(state, "input").get("todos"))
            found.todo = tuple(
                events.string(item.get("content")) for item in todos if item.get("status") not in _CLOSED_TODO
            )

    def _finish(self, part: events.Object) -> None:
        run = self._run
        run.answers, run.cut_off = run.answers + 1, False
        _add_usage(run, part)
        reason = events.string(part.get("reason"))
        if reason == "unknown":
            self._found.runaway = self._runaway.unfinished() or self._found.runaway
        if reason in GOES_ON:
            return
        if run.overflow or part.get("messageID") in self._summaries:
            run.overflow = False  # the summary of a compaction ends like an answer
            return
        run.finished, run.error = reason, None

    def _done(self, event: events.Object) -> None:
        """Newer versions: {"type": "done", "reason": "idle", "rejected": [permissions]}."""
        listed = event.get("rejected")
        rejected = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        self._found.denials += [f"permission {name}" for name in rejected]
        if rejected and not self._run.finished:
            names = ", ".join(rejected)
            self._run.error = ErrorChannel("opencode", message=f"permission requested: {names}; auto-rejecting")


def _add_usage(run: _Run, part: events.Object) -> None:
    tokens = events.obj(part, "tokens")
    cache = events.obj(tokens, "cache")
    counted = {
        "input": tokens.get("input"),
        "output": tokens.get("output"),
        "reasoning": tokens.get("reasoning"),
        "cache_read": cache.get("read"),
        "cache_write": cache.get("write"),
    }
    for name, value in counted.items():
        if (amount := events.integer(value)) is not None:
            run.tokens[name] = run.tokens.get(name, 0) + amount
    if (cost := events.number(part.get("cost"))) is not None:
        run.cost = (run.cost or 0.0) + cost


def _usage(run: _Run) -> Usage:
    return Usage(cost_usd=run.cost, **run.tokens)
