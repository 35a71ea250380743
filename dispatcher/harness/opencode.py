"""opencode 1.18: `opencode run` with JSON events on stdout, the ERROR log on stderr, and our plugin's bridge file.

What its output lacks decides the shape of this file. There is no final result event: the last `step_finish` with a
finish is the positive sign. Nothing on stdout says that a rate limit is being waited for, or which model answers: the
plugin says both, the ERROR log is the fallback. And an `ask` rule ends a run with exit 0 and nothing done, so every
permission is stated here, for all agents, and none of them is `ask`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    Tools,
    Usage,
)

PLUGIN = f"{__file__.rpartition('/')[0]}/bridge/opencode.js"

_AGENTS = ("build", "general", "explore", "plan")
_GOES_ON = frozenset({"tool-calls", "unknown", ""})  # finishes after which opencode asks the model again
_DENIED = re.compile(r"The user (has specified a rule which prevents you from|rejected permission to) us")
_OTHER_AGENT = "Falling back to default agent"  # a warning on stderr: the agent that was named does not exist
_GONE = "Session not found"
_SIDE_AGENTS = frozenset({"title", "summary"})
_QUOTA = frozenset({OutcomeClass.QUOTA_EXHAUSTED, OutcomeClass.RATE_LIMITED})
_TODO = b"todowrite"
_TOOL_ENDED = SignalKind.TOOL_ENDED  # looking it up costs more than making the signal (CPython 3.11)
_CLOSED_TODO = frozenset({"completed", "cancelled"})

_SESSION = re.compile(rb'"sessionID"\s*:\s*"([^"]{1,100})"')
_CALL = re.compile(rb'"callID"\s*:\s*"([^"]{1,200})"')
_STATE = re.compile(rb'"state"\s*:\s*\{\s*"status"\s*:\s*"(\w+)"')
_HEAD = 4096  # bytes of a line in which its own fields are looked for
_REASON = re.compile(rb'"reason"\s*:\s*"([^"]{1,40})"')
# The head of a call that ended well, as opencode 1.18 writes it: most of a stream, in bytes, is what follows it.
_ENDED_WELL = re.compile(
    rb'\{"type": ?"tool_use", ?"timestamp": ?(?P<at>\d{1,15}), ?"sessionID": ?"(?P<session>[^"\n]{1,100})", ?"part": ?'
    rb'\{"type": ?"tool", ?(?:"tool": ?"(?P<tool>[^"\\\n]{1,100})", ?)?"callID": ?"(?P<call>[^"\n]{1,200})", ?'
    rb'(?:"tool": ?"(?P<tool_behind>[^"\\\n]{1,100})", ?)?"state": ?\{"status": ?"completed"'
)
_STEP = re.compile(rb'\{"type": ?"(?:(?P<begins>step_start)|(?P<ends>step_finish)|(?P<says>text))"')


@dataclass(frozen=True)
class Opencode:
    """`name` "scripted" is the demo's own worker, which speaks this format; `zone` is that of this machine."""

    name: str = "opencode"
    zone: str = "UTC"

    @property
    def programs(self) -> tuple[str, ...]:
        return ("opencode",) if self.name == "opencode" else ()

    @property
    def tested(self) -> str:
        return "1.18"

    def version_ok(self, text: str) -> bool:
        return self.name == "scripted" or bool(re.match(r"\s*v?1\.\d+", text))

    def command(self, request: RunRequest) -> Command:
        """The prompt arrives on stdin byte for byte; an argument would be quoted and its dashes read as options."""
        argv = [*request.executable, "run", "--model", request.candidate.model, "--format", "json"]
        argv += ["--print-logs", "--log-level", "ERROR"]
        argv += ["--agent", _agent(request)]  # a default agent of the user's may ask
        if request.resume:
            argv += ["--session", request.resume]
        files = {}
        if request.instructions:
            files[_instructions_file(request)] = request.instructions
        return Command(tuple(argv), _environment(request), request.cwd, request.prompt_file, files)

    def watch(self, candidate_model: str, billing: Billing, *, overage: bool = False) -> Watch:
        return OpencodeWatch(candidate_model, self.zone)

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
        return settle(_Reader().read(stdout, stderr, bridge), exit, now, self.zone)

    def render(self, line: bytes) -> str | None:
        return _render(line)


# --- the command --------------------------------------------------------------------------------------------------


def _instructions_file(request: RunRequest) -> str:
    return f"{request.folder}/instructions.md"


def _agent(request: RunRequest) -> str:
    """With a gate, one whose name no repository knows: opencode 1.18 merges the rules of equal names key by key and the
    last that fits wins, so `{"*": allow, bash: allow}` of a repository's `build` would keep bash behind our deny."""
    return f"gated-{request.new_session}" if request.gate else "build"


def _environment(request: RunRequest) -> dict[str, str]:
    environment = {
        "OPENCODE_CONFIG_CONTENT": json.dumps(_config(request), ensure_ascii=False),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_TERMINAL_TITLE": "1",
        BRIDGE_VARIABLE: f"{request.folder}/{BRIDGE_FILE}",
        "TMPDIR": request.tmp,
    }
    if request.gate:
        environment["DISPATCHER_GATE"] = request.folder
        environment["DISPATCHER_PERMISSIONS"] = json.dumps(permissions(request.tools, request.cwd, request.tmp))
    if not request.trusted:
        environment["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    return environment


def _config(request: RunRequest) -> dict[str, object]:
    """Merged by opencode over every other configuration. Agents repeat the rules, because theirs win.

    With a gate all is denied here, and only our plugin opens it: a plugin that is missing or fails opens nothing.
    """
    from urllib.parse import quote  # a megabyte that supervisors, who only watch, do not need

    rules = {"*": "deny"} if request.gate else permissions(request.tools, request.cwd, request.tmp)
    agents: dict[str, object] = {name: {"permission": rules} for name in _AGENTS}
    if request.gate:
        agents[_agent(request)] = {"mode": "primary", "permission": rules}
    config: dict[str, object] = {
        "model": request.candidate.model,
        "small_model": request.candidate.model,  # side calls (the title) must not spend another model
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
        "permission": rules,
        "agent": agents,
        "plugin": [f"file://{quote(PLUGIN)}"],
    }
    if request.instructions:
        config["instructions"] = [_instructions_file(request)]
    return config


def permissions(tools: Tools, cwd: str, tmp: str) -> dict[str, object]:
    """opencode's rules for a level; the last one that fits wins, and `deny` as the only rule withholds the tool."""
    full = tools is Tools.FULL
    network = "allow" if full else "deny"
    kept_output = "*/opencode/tool-output/*"  # where opencode puts the rest of a long output, and says so to the model
    inside = {"*": "deny", kept_output: "allow"} | {
        path: "allow" for root in (cwd, tmp) for path in (root, f"{root}/*")
    }
    secrets = {"*": "allow", "*.env": "deny", "*.env.*": "deny", "*.env.example": "allow"}
    rules: dict[str, object] = {
        "*": "allow",
        "read": "allow" if full else secrets,
        "edit": "allow",
        "bash": "allow",
        "webfetch": network,
        "websearch": network,
        "codesearch": network,
        "external_directory": "allow" if full else inside,
        "doom_loop": "allow",  # our own runaway detector ends it with a reason
        "question": "deny",
        "plan_enter": "deny",
        "plan_exit": "deny",
    }
    if tools is Tools.READ:  # also what the user's MCP servers offer may write
        named = dict.fromkeys(("glob", "grep", "list", "todowrite", "todoread", "skill"), "allow")
        rules = {"*": "deny", "read": secrets, **named, "external_directory": inside}
    return rules


# --- live ---------------------------------------------------------------------------------------------------------


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
            if match := _ENDED_WELL.match(block, start):
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
        if reason not in _GOES_ON:
            return [Signal(SignalKind.FINISHED, now, reason)]
        signals = [Signal(SignalKind.PROGRESS, now, "step_finish")]
        return signals + (self._runs_away(self._runaway.unfinished(), now) if reason == "unknown" else [])

    def _error(self, line: bytes, now: float) -> list[Signal]:
        channel = _channel_of(events.obj(events.parse(line), "error"))
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
        if agent in _SIDE_AGENTS or model == self._seen_model:
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


def bridge_record(line: bytes) -> events.Object:
    """A line of the bridge file; an event of opencode itself is read like our own report of it. Empty: neither."""
    record = events.parse(line) or {}
    if record.get("type") != "session.status":
        return record
    properties = events.obj(record, "properties")
    status = events.obj(properties, "status")
    action = events.obj(status, "action").get("reason")
    return {**status, "session": properties.get("sessionID"), "action": action}


def retry_channel(record: Mapping[str, object]) -> tuple[ErrorChannel, float | None]:
    """A retry that the plugin reported, as an error channel, with the wait in seconds if the server stated it.

    opencode 1.18 waits 2, 4, 8, 16, then 30 seconds when the server states nothing; such a wait means "unknown".
    """
    at, following = events.number(record.get("at")), events.number(record.get("next"))
    attempt = events.integer(record.get("attempt")) or 1
    wait: float | None = None
    if at is not None and following is not None:
        wait = max(0.0, (following - at) / 1000.0)
        own = min(2.0 * 2.0 ** min(max(attempt, 1) - 1, 10), 30.0)
        if abs(wait - own) < 0.5:
            wait = None
    stated = following is not None and (at is None or wait is not None)
    channel = ErrorChannel(
        "opencode",
        error="retry_after" if stated else "retrying",
        message=events.string(record.get("message")),
        action=events.string(record.get("action")),
        next_try=following / 1000.0 if following is not None and stated else None,
    )
    return channel, wait


def _channel_of(error: Mapping[str, object]) -> ErrorChannel:
    """opencode: {name, data: {message, statusCode, isRetryable, responseHeaders, responseBody}}."""
    data = events.obj(error.get("data"))
    return ErrorChannel(
        "opencode",
        status=events.integer(data.get("statusCode")),
        error_name=events.string(error.get("name")),
        headers=events.headers(data.get("responseHeaders")),
        message=events.string(data.get("message")) or events.string(error.get("message")),
        body=events.string(data.get("responseBody")),
    )


# --- at the end ---------------------------------------------------------------------------------------------------


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


class _Reader:
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
        if kind == "call" and record.get("agent") not in _SIDE_AGENTS:
            self._found.observed_model = f"{events.string(record.get('provider'))}/{events.string(record.get('model'))}"
            self._found.model_evidence = ModelEvidence.CONFIRMED
        elif kind == "summary":
            self._summaries.add(events.string(record.get("message")))
        elif kind == "retry":
            self._retry = record

    def _event(self, line: bytes) -> None:
        if (match := _ENDED_WELL.match(line)) and self._went_well(match):
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
            run.error = _channel_of(events.obj(event, "error"))
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
            found.denials.append(_call_text(part))
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
        if reason in _GOES_ON:
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


def _call_text(part: events.Object) -> str:
    """A call in a few words: the tool and what it was about."""
    given = events.obj(part, "state", "input")
    about = next((events.string(given[key]) for key in ("command", "filePath", "url", "pattern") if key in given), "")
    return f"{events.string(part.get('tool'))}: {events.shorten(about)}" if about else events.string(part.get("tool"))


def _render(line: bytes) -> str | None:
    kind = events.kind_of(line)
    event = events.parse(line) if kind in ("text", "tool_use", "error", "step_finish", "done") else None
    if event is None:
        return None
    part = events.obj(event, "part")
    if kind == "text":
        return events.string(part.get("text")).strip() or None
    if kind == "tool_use":
        state = events.obj(part, "state")
        code = events.integer(
            events.obj(state, "metadata").get("exit")
        )  # of its bash, which is "completed" all the same
        error = events.string(state.get("error")) or (f"exit code {code}" if code else "")
        return f"> {_call_text(part)}" + (f"\n  failed: {events.shorten(error)}" if error else "")
    if kind == "error":
        channel = _channel_of(events.obj(event, "error"))
        status = f" {channel.status}" if channel.status else ""
        return f"! {channel.error_name}{status}: {events.shorten(channel.message)}"
    reason = events.string(part.get("reason")) if kind == "step_finish" else "done"
    return None if reason in _GOES_ON else f"= finished ({reason})"
