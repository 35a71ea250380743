"""GNU parallel's `--joblog`: one line a job, tab separated.

    Seq  Host  Starttime  JobRuntime  Send  Receive  Exitval  Signal  Command

(parallel 20221122: the start in epoch seconds with milliseconds; Host `:` is this machine; a command may hold tabs.)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator

from dispatcher.errors import BadInput
from dispatcher.intake.runs import Run
from dispatcher.task import OutcomeClass

HEAD = ("Seq", "Host", "Starttime", "JobRuntime", "Send", "Receive", "Exitval", "Signal", "Command")
HARNESS = "parallel"


def runs(lines: Iterable[str], file: str) -> Iterator[Run]:
    """The jobs. BadInput with the line for what is no joblog."""
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        if number == 1:
            if tuple(text.split("\t")) != HEAD:
                raise BadInput(f"{file}:1: this is no joblog of GNU parallel", hint="parallel --joblog FILE writes one")
        elif text:
            yield _run(text, f"{file}:{number}")


def _run(text: str, where: str) -> Run:
    parts = text.split("\t", len(HEAD) - 1)
    try:
        _, host, start, took, _, _, code, signal, command = parts
        began, seconds, exit_code, ended_by = float(start), float(took), int(code), int(signal)
    except ValueError:
        raise BadInput(
            f"{where}: this is no line of a joblog", hint="a line has nine columns, with tabs between"
        ) from None
    if not (math.isfinite(began) and math.isfinite(seconds)):
        raise BadInput(f"{where}: a time in this line is no number")
    good = exit_code == 0 and ended_by == 0
    outcome = OutcomeClass.COMPLETED if good else OutcomeClass.KILLED if ended_by else OutcomeClass.UNKNOWN
    return Run(
        key="joblog-" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32],
        harness=HARNESS,
        model=command.split()[0] if command.split() else "",
        title=command.strip()[:200] or "an empty command",
        prompt=command,
        started_at=began,
        ended_at=began + seconds,
        seconds=seconds,
        outcome=outcome,
        reason=f"signal {ended_by}" if ended_by else f"exit {exit_code}",
        exit_code=exit_code,
        signal=ended_by or None,
        host="" if host == ":" else host,
    )
