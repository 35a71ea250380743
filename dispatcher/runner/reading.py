"""What an attempt folder says: its outcome, read again whenever it is asked for. Rows remember; files prove."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dispatcher import harness
from dispatcher.harness.base import BRIDGE_FILE
from dispatcher.task import Attempt, ExitRecord, Outcome, OutcomeClass

STOPPED = "stop"  # how the detail of an exit record begins when a worker was ended but its task goes on later
LONGEST_LINE = 4 * 1024 * 1024


def read_outcome(attempt: Attempt, record: ExitRecord | None, now: float) -> Outcome:
    """What the harness says. A stop of ours that is no cancellation is nobody's failure."""
    folder = Path(attempt.folder)
    with lines(folder / "stdout") as out, lines(folder / "stderr") as err, lines(folder / BRIDGE_FILE) as bridge:
        outcome = harness.get(attempt.harness).read(out, err, bridge, record, now=now)
    if record is None and not outcome.positive and outcome.kind in (OutcomeClass.UNKNOWN, OutcomeClass.EMPTY_OUTPUT):
        return replace(outcome, kind=OutcomeClass.LOST, reason="no exit record: the supervisor did not end by itself")
    if outcome.kind is OutcomeClass.CANCELLED and record is not None and record.detail.startswith(STOPPED):
        return replace(outcome, kind=OutcomeClass.LOST, reason="ended by a person; the task goes on later")
    return outcome


@contextmanager
def lines(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a log file without their ends; overlong ones come in pieces; a missing file has none."""
    if not path.exists():
        yield iter(())
        return
    with path.open("rb") as file:
        yield (line.rstrip(b"\r\n") for line in iter(lambda: file.readline(LONGEST_LINE), b""))
