"""What an attempt folder says: its outcome, read again whenever it is asked for. Rows remember; files prove."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dispatcher import harness, host
from dispatcher.errors import InternalError
from dispatcher.harness import last_commit
from dispatcher.harness.base import BRIDGE_FILE
from dispatcher.supervisor import spec
from dispatcher.supervisor.transcript import lines
from dispatcher.task import Attempt, Evidence, ExitRecord, Outcome, OutcomeClass


def read_outcome(attempt: Attempt, record: ExitRecord | None, now: float) -> Outcome:
    """What the harness says. Without an exit record nothing is anybody's failure."""
    folder = Path(attempt.folder)
    outcome = harness.get(attempt.harness, host.zone(os.environ)).read(
        lines(folder / "stdout"),
        lines(folder / "stderr"),
        lines(folder / BRIDGE_FILE),
        record,
        now=now,
        session=session_record(attempt),
    )
    if record is None and not outcome.positive and outcome.kind in (OutcomeClass.UNKNOWN, OutcomeClass.EMPTY_OUTPUT):
        return replace(outcome, kind=OutcomeClass.LOST, reason="no exit record: the supervisor did not end by itself")
    return outcome


def with_words(found: Evidence, folder: Path) -> Evidence:
    """A hook that refused, with what it said."""
    said = last_commit.answer(lines(folder / "stdout")) if found.hook_output is not None else ""
    return replace(found, hook_output=f"{found.hook_output}; it said: {said}") if said else found


def session_record(attempt: Attempt) -> Iterator[bytes]:
    """The CLI's own record of the attempt's session; nothing is opened before the first line is asked for."""
    from dispatcher.intake import claude_store

    try:
        store = spec.read(Path(attempt.folder)).sessions
    except InternalError:
        return
    yield from claude_store.record(store, attempt.session_id)
