"""What every harness offers: a command to start, signals while it runs, an outcome when it has ended.

A harness is a translator. It starts nothing, opens nothing and reads no clock: the supervisor hands it lines and the
time, the runner hands it what lies in the attempt folder. So the same code judges a live run, a run whose dispatcher
died, and a transcript that somebody saved a year ago.

Lines are bytes without their line end. A line that is longer than the reader's buffer arrives cut: its head is enough
to sniff what it is, and it is then not parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from dispatcher.record import record
from dispatcher.task import (
    Billing,
    Candidate,
    ExitRecord,
    HoldRequest,
    Outcome,
    OutcomeClass,
    PromptKind,
    Tools,
)

Channel = Literal["stdout", "stderr", "bridge"]

BRIDGE_FILE = "bridge.jsonl"  # in the attempt folder; written by the worker's plugin or hook, one JSON object a line
BRIDGE_VARIABLE = "DISPATCHER_BRIDGE"  # tells the plugin where that file is


@record
class RunRequest:
    """One attempt as the runner wants it. Paths are absolute; `executable` is the program with its fixed arguments."""

    candidate: Candidate
    executable: tuple[str, ...]
    prompt_file: str
    kind: PromptKind
    resume: str | None  # id of the session to go on with
    new_session: str  # a fresh uuid, used where the CLI lets the caller choose the id
    cwd: str
    folder: str  # the attempt folder
    tools: Tools
    tmp: str  # a folder of the attempt's own that the worker may fill
    instructions: str | None = None  # AGENTS.md / CLAUDE.md of the repository at the base commit
    max_turns: int | None = None
    gate: tuple[str, ...] = ()  # how our hook is started; empty: no call is asked about
    prompt: str = ""  # what is in `prompt_file`, for a CLI that wants it in another form
    trusted: bool = False  # the repository's own settings, hooks and MCP servers may be used


@record
class Command:
    """What to start. `env` is added to the worker's environment and is visible to its tools: never a secret in it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdin: str  # path of the file that becomes the worker's standard input
    files: Mapping[str, str] = field(default_factory=dict)  # path -> text, written before the start
    session_id: str | None = None  # known before the start (claude); else the event stream names it
    held: bool = False  # `stdin` is handed over only when the gate has proved to be active


class SignalKind(StrEnum):
    """What a line can tell while the worker runs."""

    STARTED = "started"  # the harness or our plugin is up; no request was made yet
    PROGRESS = "progress"  # something moved; text says what
    TOOL_STARTED = "tool_started"  # text: the call's id. Silence is not death while a call is open
    TOOL_ENDED = "tool_ended"
    FINISHED = "finished"  # the terminal event; PROGRESS after it takes it back (a summary ends like an answer)
    SESSION = "session"  # text: the session id
    MODEL = "model"  # text: the model that really answers
    RETRY = "retry"  # the harness is about to wait and try again; `wait` is the stated time, `hold` what it means
    QUOTA = "quota"  # an allowance is used up, with the hold
    RUNAWAY = "runaway"  # text: the evidence
    PERMISSION = "permission"  # a question that nobody can answer
    MISMATCH = "mismatch"  # billing or model are not those of the route; `outcome` says which
    APPROVAL = "approval"  # a call waits for a person
    GATE_READY = "gate_ready"  # our plugin or hook is proved to be active
    GATE_REFUSED = "gate_refused"  # it is, and found that what it lets through could be changed after it


class Signal(NamedTuple):
    """One thing that a line told. Made for nearly every line of a stream: a tuple costs a tenth of a record."""

    kind: SignalKind
    at: float  # epoch seconds
    text: str = ""
    outcome: OutcomeClass | None = None
    hold: HoldRequest | None = None
    wait: float | None = None  # seconds until the harness tries again, when the server stated them; None = unknown


class Watch(Protocol):
    """Follows one run. State lives in here; nothing is shared between two runs."""

    @property
    def detection(self) -> str:
        """What shows a rate limit while the run lives: "plugin", "log" or "stream"."""
        ...

    def feed(self, channel: Channel, line: bytes, now: float) -> Sequence[Signal]:
        """One line of one channel. `now` is wall time in epoch seconds. Never raises, whatever the line holds."""
        ...

    def skim(self, channel: Channel, block: bytes, start: int, end: int, now: float) -> tuple[int, Sequence[Signal]]:
        """Pass over lines that only say that work goes on; where the first one begins that `feed` has to see.

        `block[start:end]` is whole lines with their ends. Leads to the same state as `feed` of each line would, and to
        the same open calls and alarms, but not to a signal for each line: most of a stream is what tools print.
        """
        ...


def signals_of(watch: Watch, channel: Channel, block: bytes, now: float) -> Iterator[Signal]:
    """What whole lines with their ends tell."""
    start, end = 0, len(block)
    while start < end:
        start, signals = watch.skim(channel, block, start, end, now)
        yield from signals
        if start < end:
            stop = block.index(b"\n", start)
            yield from watch.feed(channel, block[start:stop], now)
            start = stop + 1


class Harness(Protocol):
    """A CLI that drives a model."""

    @property
    def name(self) -> str: ...

    @property
    def programs(self) -> tuple[str, ...]:
        """Names to look for on PATH; empty when it needs none."""
        ...

    @property
    def tested(self) -> str:
        """The major.minor that was tried."""
        ...

    def version_ok(self, text: str) -> bool:
        """Whether the output of `--version` names a major version that was tried."""
        ...

    def command(self, request: RunRequest) -> Command: ...

    def watch(self, candidate_model: str, billing: Billing, *, overage: bool = False) -> Watch:
        """`overage`: the credential may pay beyond its subscription."""
        ...

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
        """How a run ended. `exit` None = no exit record (`lost`), or a saved transcript of unknown end.

        `session` is the CLI's own record of the session, earlier runs included. It is read only where the output does
        not tell what was used.
        """
        ...

    def render(self, line: bytes) -> str | None:
        """One event of stdout as a readable line; None for events that say nothing to a person."""
        ...
