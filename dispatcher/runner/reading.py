"""What an attempt folder says: its outcome, read again whenever it is asked for. Rows remember; files prove."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dispatcher import harness, host
from dispatcher.harness.base import BRIDGE_FILE
from dispatcher.supervisor.transcript import lines
from dispatcher.task import Attempt, ExitRecord, Outcome, OutcomeClass


def read_outcome(attempt: Attempt, record: ExitRecord | None, now: float) -> Outcome:
    """What the harness says. Without an exit record nothing is anybody's failure."""
    folder = Path(attempt.folder)
    outcome = harness.get(attempt.harness, host.zone(os.environ)).read(
        lines(folder / "stdout"), lines(folder / "stderr"), lines(folder / BRIDGE_FILE), record, now=now
    )
    if record is None and not outcome.positive and outcome.kind in (OutcomeClass.UNKNOWN, OutcomeClass.EMPTY_OUTPUT):
        return replace(outcome, kind=OutcomeClass.LOST, reason="no exit record: the supervisor did not end by itself")
    return outcome
