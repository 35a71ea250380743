"""claude 2.1: `claude -p` with stream-json events on stdout.

Every API failure is a `result` event with subtype "success" and exit code 1; a run that was interrupted exits 0; one
that waits for an approval exits 0 too. So the verdict is read from `is_error`, the API status and the CLI's own enums,
in the words of two generations: 2.1.197 says `terminal_reason: completed` for API errors and lacks `api_error`. Several
results may follow each other in one stream, all of them count. No result at all means that it did not finish, whatever
the code.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher import failures
from dispatcher.failures import ErrorChannel
from dispatcher.harness import events, stderr
from dispatcher.harness.base import (
    BRIDGE_FILE,
    BRIDGE_VARIABLE,
    Channel,
    Command,
    RunRequest,
    Signal,
    SignalKind,
    Watch,
)
from dispatcher.harness.runaway import Runaway
from dispatcher.harness.transcript import PARTIAL, Settled, Transcript, settle
from dispatcher.task import (
    Billing,
    ExitRecord,
    HoldRequest,
    HoldScope,
    ModelEvidence,
    Outcome,
    OutcomeClass,
    PromptKind,
    Tools,
    Usage,
)

SYNTHETIC = "<synthetic>"  # the model name of messages that the CLI wrote itself

_READING = ("Read", "Glob", "Grep")
_EDITING = ("Bash", "Edit", "Write", *_READING)
_NETWORK = ("WebFetch", "WebSearch")
_TOOLS: Mapping[Tools, tuple[str, ...]] = {
    Tools.READ: _READING,
    Tools.EDIT: _EDITING,
    Tools.FULL: (*_EDITING, *_NETWORK),
}
# What runs without a question beside what the mode allows in the working folder. Reading and editing are left to the
# mode at `edit`, so that a path outside is refused to the model; a bare `Read` would open the whole disk.
_ALLOWED: Mapping[Tools, tuple[str, ...]] = {
    Tools.READ: (),
    Tools.EDIT: ("Bash",),
    Tools.FULL: (*_EDITING, *_NETWORK),
}
_SECRETS = ("**/.env", "**/.env.local", "**/.env.*.local", "**/.env.development", "**/.env.production", "**/.env.test")

_TOOL_USE = re.compile(rb'"type"\s*:\s*"tool_use"\s*,\s*"id"\s*:\s*"([^"]{1,200})"\s*,\s*"name"\s*:\s*"([^"]{1,100})"')
_TOOL_RESULT = re.compile(rb'"tool_use_id"\s*:\s*"([^"]{1,200})"')
_FAILED = re.compile(rb'"is_error"\s*:\s*true')
_MODEL = re.compile(rb'"model"\s*:\s*"([^"]{1,200})"')
_MESSAGE = re.compile(rb'"id"\s*:\s*"([^"]{1,200})"')
_CHILD = re.compile(rb'"parent_tool_use_id"\s*:\s*"')

_OPEN_TODO = frozenset({"pending", "in_progress"})


@dataclass(frozen=True)
class Claude:
    """`zone` is the time zone of this machine: old versions name clock times without one."""

    zone: str = "UTC"

    @property
    def name(self) -> str:
        return "claude"

    @property
    def programs(self) -> tuple[str, ...]:
        return ("claude",)

    @property
    def tested(self) -> str:
        return "2.1"

    def version_ok(self, text: str) -> bool:
        return bool(re.match(r"\s*2\.\d+", text))

    def command(self, request: RunRequest) -> Command:
        """The prompt comes on stdin: as an argument it may be no longer than 128 KiB and must not begin with a dash."""
        argv = [*request.executable, "-p", "--output-format", "stream-json", "--verbose"]
        argv += ["--model", request.candidate.model]
        session = request.resume or request.new_session
        argv += ["--resume" if request.resume else "--session-id", session]
        argv += ["--strict-mcp-config"] if not request.trusted else []
        argv += ["--setting-sources", "user,project" if request.trusted else "user"]
        argv += ["--permission-mode", "default" if request.gate or request.tools is Tools.READ else "acceptEdits"]
        argv += ["--permission-prompts", "none"]
        argv += ["--settings", json.dumps(_settings(request))]
        argv += ["--tools", ",".join(_TOOLS[request.tools])]
        if _ALLOWED[request.tools] and not request.gate:  # with a gate only its hook opens anything
            argv += ["--allowedTools", ",".join(_ALLOWED[request.tools])]
        argv += ["--add-dir", request.tmp]
        if request.max_turns is not None:
            argv += ["--max-turns", str(request.max_turns)]
        files = {}
        if request.instructions:
            path = f"{request.folder}/instructions.md"
            files[path] = request.instructions
            argv += ["--append-system-prompt-file", path]
        stdin = request.prompt_file
        if request.gate and request.resume and request.kind is PromptKind.APPROVED:
            stdin = "/dev/null"  # without a prompt it goes on at the call that was deferred
        return Command(tuple(argv), _environment(request), request.cwd, stdin, files, session)

    def watch(self, candidate_model: str, billing: Billing, *, overage: bool = False) -> Watch:
        return ClaudeWatch(candidate_model, billing, overage, self.zone)

    def read(
        self,
        stdout: Iterable[bytes],
        stderr: Iterable[bytes],
        bridge: Iterable[bytes],
        exit: ExitRecord | None,
        *,
        now: float,
        session: Iterable[bytes] = (),
    ) -> Outcome:
        return settle(_Reader().read(stdout, stderr, session), exit, now, self.zone)

    def render(self, line: bytes) -> str | None:
        return _render(line)


# --- the command --------------------------------------------------------------------------------------------------


def _environment(request: RunRequest) -> dict[str, str]:
    return {
        "CLAUDE_CODE_MAX_RETRIES": "2",  # the default of 10 waits three minutes, on a bad key too
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",  # else it lives on after its result
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",  # shared between all copies of a repository
        "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
        "CLAUDE_CODE_TMPDIR": request.tmp,
        "TMPDIR": request.tmp,
        BRIDGE_VARIABLE: f"{request.folder}/{BRIDGE_FILE}",
    }


def _settings(request: RunRequest) -> dict[str, object]:
    """One wrongly typed value in here would silently drop all of it (claude 2.1)."""
    settings: dict[str, object] = {"hooks": _hooks(request)} if request.gate else {}
    if request.tools is Tools.FULL:
        return settings
    denied = [f"{tool}({path})" for path in _SECRETS for tool in ("Read", "Edit")]
    return {**settings, "permissions": {"deny": denied}}


def _hooks(request: RunRequest) -> dict[str, object]:
    """SessionStart reports that hooks run at all; PreToolUse asks about every call. Timeouts are seconds."""

    def one(what: str) -> dict[str, object]:
        return {"type": "command", "command": shlex.join((*request.gate, what, request.folder)), "timeout": 60}

    return {
        "SessionStart": [{"hooks": [one("ready")]}],
        "PreToolUse": [{"matcher": "*", "hooks": [one("ask")]}],
    }


def same_model(pinned: str, observed: str) -> bool:
    """Whether an observed id is the pinned one: equal, a dated release of it, or the family that an alias names."""
    wanted, seen = pinned.lower().split("[")[0], observed.lower().split("[")[0]
    if wanted == seen or re.fullmatch(re.escape(wanted) + r"[-@]20\d{6}", seen):
        return True
    if re.fullmatch(re.escape(seen) + r"[-@]20\d{6}", wanted):
        return True
    return wanted.isalpha() and wanted in re.split(r"[-./@:]", seen)


# --- live ---------------------------------------------------------------------------------------------------------


class ClaudeWatch:
    """State of one run as its lines arrive."""

    def __init__(self, model: str, billing: Billing, overage: bool, zone: str) -> None:
        self._model = model
        self._billing = billing
        self._overage = overage
        self._zone = zone
        self._session = ""
        self._seen_model = ""
        self._message = b""
        self._calls: dict[bytes, tuple[str, int]] = {}
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
            return [Signal(SignalKind.APPROVAL, now, _deferred_text(event), OutcomeClass.AWAITING_APPROVAL)]
        if event.get("is_error") is not True:
            return [Signal(SignalKind.FINISHED, now, "result")]
        found = failures.classify(result_channel(event, {}, None), now, default_zone=self._zone)
        text = events.shorten(events.string(event.get("result")))
        return [Signal(SignalKind.FINISHED, now, text, found.kind if found else None, found.hold if found else None)]

    def _assistant(self, line: bytes, now: float) -> list[Signal]:
        signals = [Signal(SignalKind.PROGRESS, now, "assistant")]
        head = line[:2000]
        model = _MODEL.search(head)
        child = events.at_key(b'"parent_tool_use_id"', _CHILD, line) is not None
        if model and not child:
            signals += self._saw_model(model[1].decode("utf-8", "replace"), now)
        for match in _TOOL_USE.finditer(line) if b'"tool_use"' in line else ():
            name = match[2].decode("utf-8", "replace")
            self._calls[match[1]] = (name, hash(line[match.end() : match.end() + 2000].split(b'"stop_reason"')[0]))
            signals.append(Signal(SignalKind.TOOL_STARTED, now, match[1].decode("utf-8", "replace")))
        message = _MESSAGE.search(head)
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
        name, call = self._calls.pop(match[1], ("", 0))
        if events.at_key(b'"is_error"', _FAILED, line) is None:
            self._runaway.tool_succeeded()
            return signals
        return signals + self._runs_away(self._runaway.tool_failed(name, call), now)

    def _saw_model(self, model: str, now: float) -> list[Signal]:
        if not model or model == SYNTHETIC or model == self._seen_model:
            return []
        self._seen_model = model
        signals = [Signal(SignalKind.MODEL, now, model)]
        if not same_model(self._model, model):
            text = f"{model} answers instead of {self._model}"
            hold = HoldRequest(HoldScope.CANDIDATE, None, text)
            signals.append(Signal(SignalKind.MISMATCH, now, text, OutcomeClass.MODEL_MISMATCH, hold))
        return signals

    def _runs_away(self, evidence: str | None, now: float) -> list[Signal]:
        return [Signal(SignalKind.RUNAWAY, now, evidence, OutcomeClass.RUNAWAY)] if evidence else []


def deferred(result: Mapping[str, object]) -> bool:
    """A call waits for a person. A second deferral has no terminal_reason, so the stop reason is what to look at."""
    return result.get("stop_reason") == "tool_deferred" or isinstance(result.get("deferred_tool_use"), dict)


def _deferred_text(result: Mapping[str, object]) -> str:
    call = events.obj(result.get("deferred_tool_use"))
    return f"{events.string(call.get('name'))}: {events.shorten(json.dumps(call.get('input'), ensure_ascii=False))}"


def result_channel(
    result: Mapping[str, object], synthetic: Mapping[str, object], limits: Mapping[str, object] | None
) -> ErrorChannel:
    """The error channel of a failed result, with what the synthetic message and the last limit event add to it."""
    errors = result.get("errors")
    listed = "; ".join(str(item) for item in errors) if isinstance(errors, list) else ""
    parameters = events.obj(synthetic.get("api_error_params"), "rate_limit_info")
    return ErrorChannel(
        "claude",
        status=events.integer(result.get("api_error_status")) or events.integer(synthetic.get("api_error_status")),
        error_type=events.string(result.get("api_error_type")) or events.string(synthetic.get("api_error_type")),
        api_error=events.string(result.get("api_error")) or events.string(synthetic.get("api_error")),
        error=events.string(synthetic.get("error")),
        terminal_reason=events.string(result.get("terminal_reason")),
        subtype=events.string(result.get("subtype")),
        message=listed,
        result_text=events.string(result.get("result")) or _text_of(synthetic),
        rate_limit_info=parameters or limits,
    )


# --- at the end ---------------------------------------------------------------------------------------------------


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


class _Reader:
    def __init__(self) -> None:
        self._run = _Run()
        self._found = Transcript()

    def read(self, stdout: Iterable[bytes], errors: Iterable[bytes], session: Iterable[bytes]) -> Transcript:
        for line in stdout:
            for event in _events_of(line):
                self._event(event)
        run, found = self._run, self._found
        lines = [item.text for item in stderr.read_lines(errors)]
        found.events = run.seen
        found.session_id = run.session or None
        found.usage = _usage(run.results) if run.results else self._usage_without_result(session)
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
            found.denials += [_denied_text(item) for item in events.items(result.get("permission_denials"))]
        if run.deferred is not None:
            text = _deferred_text(run.deferred)
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
        ended = _recorded(session, begun)
        counted = f"{len(ended)} of {len(begun)} answers, from claude's own record" if ended else "what went in"
        self._found.notes.append(f"{PARTIAL}: it ended without a result; counted: {counted}; its cost is unknown")
        return _sum(
            [ended.get(answer) or _without_output(usage) for answer, usage in begun.items()], _PLAIN_USAGE, None
        )

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

    def _event(self, event: events.Object) -> None:
        session = events.string(event.get("session_id"))
        if session and session != self._run.session:
            self._run, self._found = _Run(session), Transcript()
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
                found.last_tool_error = ""

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
        for part in events.items(events.obj(event, "message").get("content")):
            if part.get("type") == "tool_result":
                run.retry = None
                if part.get("tool_use_id") == events.obj(run.deferred, "deferred_tool_use").get("id"):
                    run.deferred = None
                failed = part.get("is_error") is True
                self._found.last_tool_error = events.string(part.get("content"))[:500] if failed else ""

    def _todo(self) -> tuple[str, ...]:
        return tuple(subject for subject, status in self._run.tasks.values() if status in _OPEN_TODO)


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


def _text_of(event: Mapping[str, object]) -> str:
    parts = events.items(events.obj(event.get("message")).get("content"))
    return " ".join(events.string(part.get("text")) for part in parts if part.get("type") == "text")


def _denied_text(item: Mapping[str, object]) -> str:
    given = events.obj(item.get("tool_input"))
    about = next((events.string(given[key]) for key in ("command", "file_path", "url", "pattern") if key in given), "")
    name = events.string(item.get("tool_name"))
    return f"{name}: {events.shorten(about)}" if about else name


_MODEL_USAGE = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
}
_PLAIN_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


def _recorded(session: Iterable[bytes], wanted: Collection[str]) -> dict[str, events.Object]:
    """Answers that ended -> their usage, as claude's own record has it; of the pieces of one answer the last counts."""
    found: dict[str, events.Object] = {}
    for line in session:
        if b'"assistant"' not in line or (event := events.parse(line)) is None or event.get("type") != "assistant":
            continue
        message = events.obj(event, "message")
        answer = events.string(message.get("id"))
        if answer in wanted and message.get("stop_reason"):
            found[answer] = events.obj(message, "usage")
    return found


def _without_output(usage: events.Object) -> events.Object:
    """What an answer began with; its output tokens are a first count, not the number (claude 2.1: always 1)."""
    return {name: amount for name, amount in usage.items() if name != "output_tokens"}


def _usage(results: Sequence[events.Object]) -> Usage:
    """This run's own tokens and cost, of a run that has a result.

    claude 2.1.332: totals go on over a resumed session, `model_usage_since_last_result` is what this run added.
    2.1.197: the totals are this run's own; the last result repeats what earlier ones said.
    """
    added = [result["model_usage_since_last_result"] for result in results if _has_models(result)]
    if added:
        models = [events.obj(model) for usage in added for model in events.obj(usage).values()]
        costs = [cost for model in models if (cost := events.number(model.get("costUSD"))) is not None]
        return _sum(models, _MODEL_USAGE, sum(costs, 0.0) if costs or not models else None)
    last = results[-1]
    cost = events.number(last.get("total_cost_usd"))
    models = [events.obj(model) for model in events.obj(last.get("modelUsage")).values()]
    return _sum(models, _MODEL_USAGE, cost) if models else _sum([events.obj(last.get("usage"))], _PLAIN_USAGE, cost)


def _has_models(result: Mapping[str, object]) -> bool:
    return isinstance(result.get("model_usage_since_last_result"), dict)


def _sum(parts: Iterable[events.Object], names: Mapping[str, str], cost: float | None) -> Usage:
    totals: dict[str, int] = {}
    for part in parts:
        for key, name in names.items():
            if (amount := events.integer(part.get(name))) is not None:
                totals[key] = totals.get(key, 0) + amount
    return Usage(cost_usd=cost, **totals)


def _render(line: bytes) -> str | None:
    kind = events.kind_of(line)
    event = events.parse(line) if kind in ("assistant", "user", "result", "system") else None
    if event is None:
        return None
    if kind == "result":
        word = "failed" if event.get("is_error") is True else "finished"
        return f"= {word}: {events.shorten(events.string(event.get('result')))}"
    if kind == "system":
        return _render_system(event)
    lines = [text for part in events.items(events.obj(event, "message").get("content")) if (text := _render_part(part))]
    return "\n".join(lines) or None


def _render_system(event: events.Object) -> str | None:
    if event.get("subtype") == "api_retry":
        return f"! trying again: {events.string(event.get('error'))} {event.get('error_status')}"
    if event.get("subtype") == "permission_denied":
        return f"! denied: {events.shorten(events.string(event.get('message')))}"
    return None


def _render_part(part: events.Object) -> str | None:
    if part.get("type") == "text":
        return events.string(part.get("text")).strip()
    if part.get("type") == "tool_use":
        denied_like: events.Object = {"tool_name": part.get("name"), "tool_input": part.get("input")}
        return f"> {_denied_text(denied_like)}"
    if part.get("type") == "tool_result" and part.get("is_error") is True:
        return f"  failed: {events.shorten(events.string(part.get('content')))}"
    return None
