"""The files of an attempt folder as the dispatcher sees them: attempt.json, exit.json, attempt.lock.

    attempt.json   what to start and the limits; written and synced before any process exists
    prompt.md      becomes the worker's standard input
    prompt.jsonl   the same for claude with a gate: it is given when the gate has reported itself
    stdout stderr  the worker's, appended by itself, capped from outside
    bridge.jsonl   lines of our plugin or hook inside the worker
    control        lines for the supervisor: {"do": "cancel", "by": ...}
    attempt.lock   locked for as long as the supervisor lives; holds who it is and what it started
    gate.sock      where the worker asks before a tool call
    git-trace      git's own trace of the worker's commands
    exit.json      how it ended; written once, by rename, when the tree is dead

A half-written file is never seen: both records appear by rename. What an older or newer version wrote is read as far as
it is known. Nothing secret is in any of them: the worker's environment never touches the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from dispatcher.errors import InternalError
from dispatcher.supervisor import attempt_files as files
from dispatcher.supervisor import plain_json
from dispatcher.task import EndReason, ExitRecord, HoldRequest, HoldScope, OutcomeClass

Value = TypeVar("Value", bound=StrEnum)


@dataclass(frozen=True)
class AttemptSpec:
    """What one supervisor has to do. Durations are seconds; 0 switches a clock off."""

    marker: str  # unique; in the environment of everything the attempt starts
    argv: tuple[str, ...]
    cwd: str
    stdin: str
    folder: str
    harness: str | None = None  # None: a plain command such as a check, watched by the clocks alone
    model: str = ""
    billing: str = "free"
    start: float = 120.0
    stall: float = 600.0
    hard_cap: float = 2700.0
    grace: float = 15.0
    switch_after: float = 5.0
    others_free: bool = False  # another candidate could take over
    log_bytes: int = 64 * 1024 * 1024  # per output file; 0 = no cap
    keep_daemons: tuple[str, ...] = ()  # program names that may outlive the attempt
    gate_required: bool = False  # a tool call before our gate has reported itself ends the run
    detection: str = "stream"  # what sees a quota signal when the bridge says nothing: "stream" or "log"
    candidate: str = ""  # this and the credential: so that a lost row can be made again
    credential: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()  # variables taken out of the worker's environment
    overage: bool = False  # the credential may pay beyond its subscription
    gate: Mapping[str, Any] = field(default_factory=dict)  # what `gate.Gate` has to know; empty: there is none
    sessions: str = ""  # where the CLI keeps its own record of sessions, if that is needed; a folder
    zone: str = "UTC"  # of this machine, for clock times that an error text names without one
    held: bool = False  # `stdin` is handed over only when the gate has proved to be active


def write(spec: AttemptSpec) -> None:
    """Write attempt.json, whole or not at all."""
    files.write_durably(str(Path(spec.folder) / files.ATTEMPT), plain_json.dumps(vars(spec)))


def read(folder: Path) -> AttemptSpec:
    try:
        values = plain_json.loads((folder / files.ATTEMPT).read_text(encoding="utf-8"))
        known = {name: values[name] for name in (f.name for f in fields(AttemptSpec)) if name in values}
        for name in ("argv", "keep_daemons", "unset"):
            known[name] = tuple(known.get(name, ()))
        return AttemptSpec(**known)
    except (OSError, ValueError, TypeError) as error:
        raise InternalError(f"{folder / files.ATTEMPT}: not readable as an attempt: {error}") from None


def read_exit(folder: Path) -> ExitRecord | None:
    """The exit record; None when there is none, when it is damaged, or when it belongs to another attempt."""
    try:
        values = plain_json.loads((folder / files.EXIT).read_text(encoding="utf-8"))
        record = _exit_record(values)
        return record if record.marker == read(folder).marker else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, InternalError):
        return None


def write_exit(folder: Path, record: ExitRecord) -> None:
    files.write_durably(str(folder / files.EXIT), plain_json.dumps(_plain(record)))


def alive(folder: Path) -> bool:
    """Whether the supervisor of this attempt lives, or is just being started."""
    return files.locked(str(folder / files.LOCK))


def _plain(record: ExitRecord) -> dict[str, object]:
    hold = record.hold
    return {**vars(record), "hold": None if hold is None else dict(vars(hold))}


def _exit_record(values: Mapping[str, Any]) -> ExitRecord:
    known = {name: values[name] for name in (f.name for f in fields(ExitRecord)) if name in values}
    hold = known.get("hold")
    if hold is not None:
        known["hold"] = HoldRequest(
            HoldScope(hold["scope"]), hold["until"], hold["reason"], hold.get("window"), hold.get("stated", False)
        )
    known["reason"] = _member(EndReason, known["reason"], EndReason.SUPERVISOR_ERROR)
    if known.get("kind") is not None:
        known["kind"] = _member(OutcomeClass, known["kind"], OutcomeClass.UNKNOWN)
    if (known["reason"], known.get("kind")) == (EndReason.SUPERVISOR_ERROR, OutcomeClass.LOST):
        known |= {"reason": EndReason.STOPPED, "kind": OutcomeClass.STOPPED}  # as older supervisors wrote a stop
    for name in ("ended_processes", "notes"):
        known[name] = tuple(known.get(name, ()))
    return ExitRecord(**known)


def _member(kind: type[Value], text: str, otherwise: Value) -> Value:
    """A word of a later version is read as the nearest word of this one."""
    try:
        return kind(text)
    except ValueError:
        return otherwise
