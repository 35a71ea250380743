"""`classify`: how saved runs ended. Transcripts, stderr logs, attempt folders of either CLI, told by their content.

What is printed as the action is the verdict that a run with this outcome gets at its first attempt, asked for each
state of git that it may leave. Clock times and waits count from the time that the run itself states, else from now.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher import harness, host, verdict
from dispatcher.cli import infile
from dispatcher.cli.render import Column, clean, json_out, note, out, table
from dispatcher.cli.wording import clock
from dispatcher.errors import BadInput, DispatcherError, InternalError
from dispatcher.harness import saved
from dispatcher.supervisor import spec
from dispatcher.supervisor.transcript import lines as lines_of
from dispatcher.task import (
    Action,
    Commit,
    Counters,
    Evidence,
    ExitRecord,
    Expect,
    HoldRequest,
    Limits,
    Outcome,
    OutcomeClass,
    PromptKind,
    Verdict,
)

STDIN = "-"
_CHANNELS = ("bridge.jsonl", "stderr", "stdout")
_CANDIDATE = "this one"
_PROVABLE = 8 * 1024 * 1024  # bytes; in a longer run the proof is named without its line
_SHOWN = 160  # characters of the proving line in a listing; JSON has it whole, up to:
_KEPT = 2_000


@dataclass(frozen=True)
class Line:
    """One line of a file, as it lies there."""

    file: str
    number: int
    text: bytes


@dataclass(frozen=True)
class Found:
    """One judged run. `line` is None when no single line proves it: the exit record did, or nothing does."""

    name: str
    harness: str
    outcome: Outcome
    line: Line | None
    note: str = ""


def classify_files(names: Sequence[str], *, as_json: bool) -> int:
    """0 when everything could be judged, 2 when something is no run; the others are printed all the same."""
    now = time.time()
    rows, code = [], 0
    for name in names:
        try:
            rows.append(_row(judge(name, now)))
        except DispatcherError as error:
            code = error.exit_code
            note(f"error: {clean(error.message)}")
            if error.hint:
                note(f"hint: {clean(error.hint)}")
    if as_json:
        json_out(rows)
    elif len(rows) == 1 and len(names) == 1:
        _print_one(rows[0])
    elif rows:
        table(rows, COLUMNS)
    return code


def judge(name: str, now: float) -> Found:
    """Raises BadInput for what is neither a transcript nor an attempt folder."""
    path = Path(name)
    if name != STDIN and path.is_dir():
        return _folder(path, now)
    lines = _read(name, path)
    if not any(line.text.strip() for line in lines):
        raise BadInput(f"{name} is empty: there is nothing to classify", hint="was the run's output saved elsewhere?")
    return _saved(name, lines, now)


def _saved(name: str, lines: list[Line], now: float) -> Found:
    texts = [line.text for line in lines]
    now = saved.time_of(texts) or now
    judged = saved.judge(texts, now, zone=host.zone(os.environ))
    if judged is None:
        raise BadInput(
            f"{name} is no output of opencode or claude",
            hint="save stdout (--format json, --output-format stream-json), stderr, or name an attempt folder",
        )
    size = sum(map(len, texts))
    number = saved.decisive(texts, judged, now, zone=host.zone(os.environ)) if size <= _PROVABLE else None
    return Found(name, judged.harness, judged.outcome, None if number is None else lines[number])


# --- files and folders --------------------------------------------------------------------------------------------


def _read(name: str, path: Path) -> list[Line]:
    if name == STDIN:
        data = infile.stdin("save it in a file, and name that")
        return [Line("stdin", n, text) for n, text in enumerate(data.splitlines(), 1)]
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{name} is not a file", hint="use - for what comes through a pipe")
        return _lines(path, name)
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}", hint="correct the path") from None


def _lines(path: Path, name: str) -> list[Line]:
    return [Line(name, number, text.rstrip(b"\r")) for number, text in enumerate(lines_of(path), 1)]


def _folder(folder: Path, now: float) -> Found:
    """An attempt folder: its exit record counts, as it did when the attempt was settled."""
    if not any((folder / name).exists() for name in _CHANNELS):
        inner = sorted((p for p in folder.glob("*") if (p / "stdout").exists()), key=lambda p: (len(p.name), p.name))
        hint = f"name one of its attempts, such as {inner[-1]}" if inner else "it holds neither stdout nor stderr"
        raise BadInput(f"{folder} is no attempt folder", hint=hint)
    parts = {name: _lines(folder / name, name) for name in _CHANNELS}
    everything = [line for name in _CHANNELS for line in parts[name]]
    cli = _harness_of(folder)
    if cli is None:
        return _saved(str(folder), everything, now)
    record = spec.read_exit(folder)
    now = record.ended_at if record is not None else now
    outcome = _outcome(cli, everything, record, now)
    line = None
    if record is None or _outcome(cli, everything, None, now).kind is outcome.kind:
        line = _proving(cli, everything, outcome.kind, now)
    said = ""
    if record is None:
        said = "it is still running" if spec.alive(folder) else "there is no exit record"
    return Found(str(folder), cli, outcome, line, said)


def _harness_of(folder: Path) -> str | None:
    """The CLI that attempt.json names; None without that file, as in a folder that somebody put together."""
    try:
        found = spec.read(folder).harness
    except InternalError:
        return None
    if found is None:
        raise BadInput(f"{folder} is the folder of a check, not of a worker", hint="dispatcher show TASK tells of it")
    return found


def _outcome(cli: str, lines: Sequence[Line], record: ExitRecord | None, now: float) -> Outcome:
    """As `harness.read` sees them: each line on its own channel."""
    channel = {name: [line.text for line in lines if line.file == name] for name in _CHANNELS}
    read = harness.get(cli, host.zone(os.environ)).read
    return read(channel["stdout"], channel["stderr"], channel["bridge.jsonl"], record, now=now)


def _proving(cli: str, lines: list[Line], kind: OutcomeClass, now: float) -> Line | None:
    if kind in saved.UNPROVED or sum(len(line.text) for line in lines) > _PROVABLE:
        return None
    number = saved.first_with(len(lines), lambda end: _outcome(cli, lines[:end], None, now).kind is kind)
    return None if number is None else lines[number]


# --- what is printed ----------------------------------------------------------------------------------------------


def _row(found: Found) -> dict[str, Any]:
    """The shape of `classify --json`."""
    outcome, line, hold = found.outcome, found.line, found.outcome.hold
    verdicts = {state: _verdict(outcome, evidence) for state, evidence in _STATES.items()}
    return {
        "file": found.name,
        "harness": found.harness,
        "class": str(outcome.kind),
        "reason": outcome.reason,
        "proof": outcome.proof,
        "line": None if line is None else _text(line.text),
        "line_number": None if line is None else line.number,
        "line_file": None if line is None else line.file,
        "reset": None if hold is None else hold.until,
        "reset_stated": None if hold is None else hold.stated,
        "scope": None if hold is None else str(hold.scope),
        "window": None if hold is None else hold.window,
        "hold": hold_words(hold),
        "action": _action(verdicts),
        "verdicts": {
            state: {"action": str(judged.action), "next": verdict_words(judged)} for state, judged in verdicts.items()
        },
        "model": outcome.observed_model,
        "session": outcome.session_id,
        "note": found.note,
    }


_STATES = {
    "nothing in git": Evidence(),
    "uncommitted work": Evidence(dirty=("a",), files=("a",), moved=True),
    "committed work": Evidence(commits=(Commit("0", "work"),), files=("a",), moved=True),
}


def _verdict(outcome: Outcome, evidence: Evidence) -> Verdict:
    situation = verdict.Situation(
        outcome=outcome,
        evidence=evidence,
        counters=Counters(starts=1),
        limits=Limits(),
        expect=Expect.COMMIT,
        prompt=PromptKind.FIRST,
        candidate=_CANDIDATE,
        session_id=outcome.session_id,
        candidate_held=outcome.hold is not None,
    )
    return verdict.judge(situation)


def _action(verdicts: Mapping[str, Verdict]) -> str:
    """One sentence when git changes nothing, else one for each thing that it may say."""
    said = {state: verdict_words(judged) for state, judged in verdicts.items()}
    if len(set(said.values())) == 1:
        return said["nothing in git"]
    return "; ".join(f"{state}: {words}" for state, words in said.items())


_RESTS = {
    Action.NEEDS_HUMAN: "a person is asked",
    Action.AWAIT_APPROVAL: "waits for an approval",
    Action.CANCEL: "cancelled, the work is kept",
    Action.REVIEW: "review",
    Action.CHECK: "the checks, then review",
}


def verdict_words(found: Verdict) -> str:
    """What happens next, in a few words."""
    if found.next is None or found.action in _RESTS:
        return _RESTS.get(found.action, str(found.action))
    who = "the same candidate" if found.next.candidate else "the next candidate"
    what = "same session, " if found.next.session_id else ""
    wait = f" after {found.delay:.0f} s" if found.delay else ""
    return f"{who}{wait}, {what}{found.next.prompt} prompt"


def hold_words(hold: HoldRequest | None) -> str:
    """`model until 2026-11-30 00:00 (stated)`."""
    if hold is None:
        return "none"
    if hold.until is None:
        return f"{hold.scope} until a person lifts it"
    return f"{hold.scope} until {clock(hold.until)} ({'stated' if hold.stated else 'a guess: none was stated'})"


def _text(line: bytes) -> str:
    return line[:_KEPT].decode("utf-8", "replace")


def _where(row: dict[str, Any]) -> str:
    if row["line"] is None:
        return str(row["proof"])
    return f"{row['line_number']}: {row['line'][:_SHOWN]}"


COLUMNS = (
    Column("file", "file"),
    Column("harness", "cli", least=100),
    Column("class", "class"),
    Column("hold", "hold", least=120),
    Column("action", "then", wide=True),
)


def _print_one(row: dict[str, Any]) -> None:
    facts = (
        ("cli", row["harness"]),
        ("class", f"{row['class']}: {row['reason']}"),
        ("proof", row["proof"]),
        ("line", "" if row["line"] is None else f"{row['line_file']}:{_where(row)}"),
        ("hold", row["hold"]),
        ("action", row["action"]),
        ("model", row["model"] or ""),
        ("session", row["session"] or ""),
        ("note", row["note"]),
    )
    for name, value in facts:
        if value:
            out(f"{name:<8} {clean(value)}")
