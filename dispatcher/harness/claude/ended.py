"""How a run of claude ended, from its whole output: every result in it counts, and none at all means not finished."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher import failures
from dispatcher.failures import ErrorChannel
from dispatcher.harness import events, stderr
from dispatcher.harness.claude.said import RESULT_HEAD, SYNTHETIC, call_text, deferred, deferred_text, result_channel
from dispatcher.harness.claude.usage import PLAIN_USAGE, of_results, recorded, total, without_output
from dispatcher.harness.transcript import PARTIAL, Settled, Transcript
from dispatcher.task import ModelEvidence, OutcomeClass, Usage
from dispatcher.words import of

_SESSION = re.compile(rb'"session_id"\s*:\s*"([^"]{1,100})"')
_OPEN_TODO = frozenset({"pending", "in_progress"})


@dataclass
class _Run:
    """One session of the stream. `usage` keys message ids: several events repeat the usage of one answer."""

    session: str = ""
    seen: int = 0  # events
    results: list[events.Object] = field(default_factory=list)
    deferred: events.Object | None = None  # the result that waits for an approval, until the call was decided
    synthetic: events.Object = field(default_factory=dict)
    limits: events.Object | None = None
    retry: events.Object | None = None  # the last api_retry, while nothing came after it
    text: str = ""
    usage: dict[str, events.Object] = field(default_factory=dict)
    tasks: dict[str, tuple[str, str]] = field(default_factory=dict)  # id -> (subject, status)


class Reader:
    def __init__(self) -> None:
        self._run = _Run()
        self._found = Transcript()
        self._result = b""  # a line that was not parsed, while nothing came after it

    def read(self, stdout: Iterable[bytes], errors: Iterable[bytes], session: Iterable[bytes]) -> Transcript:
        for line in stdout:
            if not self._is_plain_result(line):
                for event in _events_of(line):
                    self._event(event)
        if self._result:
            self._found.last_tool_error = _tool_error(events.parse(self._result) or {})
        run, found = self._run, self._found
        lines = [item.text for item in stderr.read_lines(errors)]
        found.events = run.seen
        found.session_id = run.session or None
        found.usage = of_results(run.results) if run.results else self._usage_without_result(session)
        found.todo = self._todo()
        said = [events.string(item) for result in run.results for item in _listed(result.get("errors"))]
        gone = ("No conversation found with session ID", "No deferred tool marker found")
        found.session_gone = any(text in line for text in gone for line in (*lines, *said))
        self._judge(lines)
        return found

    def _judge(self, lines: Sequence[str]) -> None:
        """All results count: an approval that is waited for, then the last error, then the positive one."""
        run, found = self._run, self._found
        for result in run.results:
            found.denials += [call_text(item) for item in events.items(result.get("permission_denials"))]
        if run.deferred is not None:
            text = deferred_text(run.deferred)
            found.settled = Settled(OutcomeClass.AWAITING_APPROVAL, "a call waits for a person", text)
            return
        if not run.results:
            found.final_text = run.text
            found.channel = self._channel_of_silence(lines)
            return
        last = run.results[-1]
        found.final_text = events.string(last.get("result")) if last.get("is_error") is not True else run.text
        if last.get("is_error") is True:
            found.channel = result_channel(last, run.synthetic, run.limits)
        else:
            found.settled = _positive(last, found.tool_calls)

    def _usage_without_result(self, session: Iterable[bytes]) -> Usage:
        """The stream tells the counts that each answer began with; how long it became stands in claude's own record.

        That record goes on over resumed runs, so only the answers of this stream are taken from it, each of them once.
        """
        begun = self._run.usage
        if not begun:
            return Usage()
        ended = recorded(session, begun)
        counted = f"{of(len(ended), len(begun), 'answer')}, from claude's own record" if ended else "what went in"
        self._found.notes.append(f"{PARTIAL}: it ended without a result; counted: {counted}; its cost is unknown")
        return total([ended.get(answer) or without_output(usage) for answer, usage in begun.items()], PLAIN_USAGE, None)

    def _channel_of_silence(self, lines: Sequence[str]) -> ErrorChannel | None:
        """No result: a refusal to start on stderr, or a run that was ended while it waited to try again."""
        run = self._run
        if run.synthetic:
            return result_channel({}, run.synthetic, run.limits)
        if run.retry is not None:
            return ErrorChannel(
                "claude",
                status=events.integer(run.retry.get("error_status")),
                error=events.string(run.retry.get("error")),
                rate_limit_info=run.limits,
            )
        if failures.window_rejected(run.limits):
            return ErrorChannel("claude", rate_limit_info=run.limits)
        return ErrorChannel("claude", log_lines=tuple(lines)) if lines else None

    def _is_plain_result(self, line: bytes) -> bool:
        """What a tool printed, often most of the stream; it need not be parsed, unless it is the last one."""
        run = self._run
        if run.deferred is not None or not line.startswith(RESULT_HEAD):
            return False
        session = events.at_key(b'"session_id"', _SESSION, line)
        if session is None or session[1] != run.session.encode("utf-8", "replace"):
            return False
        run.seen += 1
        run.retry = None
        self._result = line
        return True

    def _event(self, event: events.Object) -> None:
        session = events.string(event.get("session_id"))
        if session and session != self._run.session:
            self._run, self._found, self._result = _Run(session), Transcript(), b""
        run = self._run
        run.seen += 1
        kind = event.get("type")
        if kind == "result":
            run.results.append(event)
            run.deferred = event if deferred(event) else run.deferred
        elif kind == "rate_limit_event":
            run.limits = events.obj(event, "rate_limit_info")
        elif kind == "system":
            self._system(event)
        elif kind == "assistant":
            self._assistant(event)
        elif kind == "user":
            self._user(event)

    def _system(self, event: events.Object) -> None:
        subtype = event.get("subtype")
        if subtype == "init" and self._found.observed_model is None:
            self._found.observed_model = events.string(event.get("model")) or None  # what will be asked for
        elif subtype == "api_retry":
            self._run.retry = event
        elif subtype == "model_fallback":
            self._found.notes.append(events.shorten(events.string(event.get("content")) or "another model took over"))

    def _assistant(self, event: events.Object) -> None:
        run, found, message = self._run, self._found, events.obj(event, "message")
        if message.get("model") == SYNTHETIC:
            run.synthetic = event if event.get("error") else {}
            return
        run.synthetic, run.retry = {}, None
        run.usage[events.string(message.get("id"))] = events.obj(message, "usage")
        main = not events.string(event.get("parent_tool_use_id"))
        if main and events.string(message.get("model")):
            found.observed_model, found.model_evidence = events.string(message.get("model")), ModelEvidence.CONFIRMED
        for part in events.items(message.get("content")):
            if part.get("type") == "tool_use":
                self._call(part)
            elif part.get("type") == "text" and main:
                run.text = events.string(part.get("text"))
                found.last_tool_error, self._result = "", b""

    def _call(self, part: events.Object) -> None:
        name, given = events.string(part.get("name")), events.obj(part, "input")
        self._found.tool_calls += 1
        if name == "TodoWrite":
            todos = events.items(given.get("todos"))
            self._run.tasks = {
                str(number): (events.string(item.get("content")), events.string(item.get("status")))
                for number, item in enumerate(todos, start=1)
            }
        elif name == "TaskCreate":
            number = str(len(self._run.tasks) + 1)
            self._run.tasks[number] = (events.string(given.get("subject")), "pending")
        elif name == "TaskUpdate":
            number = events.string(given.get("taskId"))
            if number in self._run.tasks and events.string(given.get("status")):
                self._run.tasks[number] = (self._run.tasks[number][0], events.string(given.get("status")))

    def _user(self, event: events.Object) -> None:
        run = self._run
        for part in _results(event):
            run.retry = None
            if part.get("tool_use_id") == events.obj(run.deferred, "deferred_tool_use").get("id"):
                run.deferred = None
            self._found.last_tool_error, self._result = _tool_error(event), b""

    def _todo(self) -> tuple[str, ...]:
        return tuple(subject for subject, status in self._run.tasks.values() if status in _OPEN_TODO)


def _results(event: events.Object) -> list[events.Object]:
    parts = events.items(events.obj(event, "message").get("content"))
    return [part for part in parts if part.get("type") == "tool_result"]


def _tool_error(event: events.Object) -> str:
    """What the last call in it failed with; empty when it did not fail."""
    last = next(iter(_results(event)[-1:]), {})
    return events.string(last.get("content"))[:500] if last.get("is_error") is True else ""


def _positive(result: Mapping[str, object], tool_calls: int) -> Settled:
    """A result without an error. Three of its kinds are hollow: nothing ran, nothing was said, a call was cut off."""
    text = events.string(result.get("result"))
    if result.get("num_turns") == 0:
        return Settled(OutcomeClass.INTERNAL, "a success with zero turns: nothing was run", "num_turns 0")
    if result.get("stop_reason") == "tool_use":
        return Settled(OutcomeClass.UNKNOWN, "the result ended in the middle of a tool call", "stop_reason tool_use")
    if not text.strip() and not tool_calls:
        return Settled(OutcomeClass.EMPTY_OUTPUT, "a success without a word and without a tool call", 'result ""')
    proof = f"result {events.string(result.get('subtype'))}, is_error false"
    return Settled(OutcomeClass.COMPLETED, "a positive result event", proof, positive=True)


def _events_of(line: bytes) -> Iterator[events.Object]:
    """`--output-format json --verbose` prints one array of all events."""
    if line.startswith(b"["):
        yield from events.items(events.parse_any(line))
    elif line.startswith(b"{") and (event := events.parse(line)) is not None:
        yield event


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
