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
import sys
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
from dispatcher.harness.runaway import SAME_FAILURE, STEPS, Runaway
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
from dispatcher.words import of, plural

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
_SESSION = re.compile(rb'"session_id"\s*:\s*"([^"]{1,100})"')
_HEAD = 2000  # bytes of a line in which the model and the message id are looked for

# The two events that most of a stream consists of, as claude 2.1 writes them: a call's result, and an answer that is
# one call. Servers name the model in one of two places.
_RESULT_HEAD = b'{"type":"user","message":{"role":"user","content":[{"tool_use_id":"'
_RESULT_MIDDLE = b'","type":"tool_result"'
_QUIET = re.compile(
    re.escape(_RESULT_HEAD) + rb'([^"\n]+)' + re.escape(_RESULT_MIDDLE) + rb'|\{"type":"assistant","message":\{(?:'
    rb'"model":"([^"\n]+)","id":"([^"\n]+)","type":"message","role":"assistant"'
    rb'|"id":"([^"\n]+)","type":"message","role":"assistant","model":"([^"\n]+)")'
    rb',"content":\[\{"type":"tool_use","id":"([^"\n]+)","name":"([^"\n]+)"'
)
# What stands behind the message of an answer that no subagent gave: the first that names a `tool_use` after its call.
_OWN = b'},"parent_tool_use_id":null,"session_id":"%b"'
_OWN_WORD = _OWN.index(b"tool_use")

_TOOL_STARTED, _TOOL_ENDED = SignalKind.TOOL_STARTED, SignalKind.TOOL_ENDED  # slow to look up (CPython 3.11)
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
        if request.gate:  # once more, for the case that all of our settings are dropped; an administrator's win
            argv += ["--managed-settings", json.dumps({"permissions": {"ask": _asked(request)}})]
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
        stdin, held = request.prompt_file, False
        if request.gate and request.resume and request.kind is PromptKind.APPROVED:
            stdin = "/dev/null"  # without a prompt it goes on at the call that was deferred
        elif request.gate:
            stdin, held = f"{request.folder}/prompt.jsonl", True
            files[stdin] = _message(request.prompt)
            argv += ["--input-format", "stream-json"]
        return Command(tuple(argv), _environment(request), request.cwd, stdin, files, session, held)

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


def _message(prompt: str) -> str:
    """A prompt as a line of `--input-format stream-json`. In that form hooks of SessionStart run before it is read, in
    the plain form after (claude 2.1), so that it can wait until they have."""
    content = [{"type": "text", "text": prompt}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


def _settings(request: RunRequest) -> dict[str, object]:
    """One wrongly typed value in here would silently drop all of it (claude 2.1).

    Those of the user and of a trusted repository are read again whenever they change, and ours win: so hooks stay on.
    A rule that asks wins over one that allows, whoever wrote it, and over a hook that allows. Only the hook of
    PermissionRequest answers it, so that without our hooks nothing runs but what reads.
    """
    permissions: dict[str, object] = {}
    if request.tools is not Tools.FULL:
        permissions["deny"] = [f"{tool}({path})" for path in _SECRETS for tool in ("Read", "Edit")]
    if not request.gate:
        return {"permissions": permissions} if permissions else {}
    permissions["ask"] = _asked(request)
    return {"disableAllHooks": False, "hooks": _hooks(request), "permissions": permissions}


def _asked(request: RunRequest) -> list[str]:
    return [*(tool for tool in _TOOLS[request.tools] if tool not in _READING), "NotebookEdit", "mcp__*"]


def _hooks(request: RunRequest) -> dict[str, object]:
    """SessionStart reports that hooks run at all, PreToolUse asks about every call, PermissionRequest about what is
    about to run: another hook may have changed it. Timeouts are seconds."""

    def one(what: str) -> dict[str, object]:
        return {"type": "command", "command": shlex.join((*request.gate, what, request.folder)), "timeout": 60}

    return {
        "SessionStart": [{"hooks": [one("ready")]}],
        "PreToolUse": [{"matcher": "*", "hooks": [one("ask")]}],
        "PermissionRequest": [{"matcher": "*", "hooks": [one("confirm")]}],
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
                if start >= end or not block.startswith(_RESULT_HEAD + result + _RESULT_MIDDLE, start):
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
            return [Signal(SignalKind.APPROVAL, now, _deferred_text(event), OutcomeClass.AWAITING_APPROVAL)]
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
        counted = f"{of(len(ended), len(begun), 'answer')}, from claude's own record" if ended else "what went in"
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

    def _is_plain_result(self, line: bytes) -> bool:
        """What a tool printed, often most of the stream; it need not be parsed, unless it is the last one."""
        run = self._run
        if run.deferred is not None or not line.startswith(_RESULT_HEAD):
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
        return _render_result(event)
    if kind == "system":
        return _render_system(event)
    lines = [text for part in events.items(events.obj(event, "message").get("content")) if (text := _render_part(part))]
    return "\n".join(lines) or None


def _render_result(result: events.Object) -> str:
    """What a success says was its last answer, and is there already."""
    text, turns = events.shorten(events.string(result.get("result"))), events.integer(result.get("num_turns"))
    if deferred(result):
        return f"= waits for a person: {_deferred_text(result)}"
    if result.get("is_error") is True:
        return f"= failed: {text}"
    return f"= finished ({plural(turns, 'turn')})" if turns else f"= finished: {text}"


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
        said = events.string(part.get("content")).removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
        return f"  failed: {events.shorten(said)}"
    return None
