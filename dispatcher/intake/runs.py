"""One run by hand, and how it becomes a task with one attempt.

The task rests: `accepted` when the run completed (a person saw to it), else `cancelled`. Reports do not count it as
accepted: nobody judged it. Billing is that of the candidate in models.yaml with the same harness and model; without one
it is not known, and the run is booked as metered on the credential `unknown`, so that it never looks free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from dispatcher.errors import BadInput
from dispatcher.store import Store, imported
from dispatcher.store.queue import NewTask, digest
from dispatcher.task import (
    Billing,
    Candidate,
    Credential,
    Difficulty,
    Expect,
    ModelEvidence,
    OutcomeClass,
    PromptKind,
    Source,
    Status,
    Usage,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dispatcher.routing import Roster


@dataclass(frozen=True)
class Run:
    """What a foreign log tells. Times are epoch seconds; `seconds` is the time the worker was at it."""

    key: str  # unique and stable: a second import finds it again
    harness: str
    model: str
    title: str
    prompt: str
    started_at: float
    ended_at: float
    seconds: float
    outcome: OutcomeClass
    reason: str
    folder: str = ""  # where it worked
    session_id: str | None = None
    harness_version: str | None = None
    final_text: str = ""
    exit_code: int | None = None
    signal: int | None = None
    host: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Counts:
    added: int = 0
    known: int = 0


def store_runs(
    store: Store,
    runs: Iterable[Run],
    *,
    roster: Roster | None,
    credential: str | None,
    now: float,
    tell: Callable[[int], None] | None = None,
) -> Counts:
    """Add the runs that the log does not have, all in one transaction. Sessions that we ran ourselves are known too."""
    payer = _payer(roster, credential)
    done = Counts()
    with store.write():
        markers, sessions = imported.known(store)
        for run in runs:
            if run.key in markers or (run.session_id is not None and run.session_id in sessions):
                done = replace(done, known=done.known + 1)
                continue
            markers.add(run.key)
            _store(store, run, _candidate(roster, run, payer), now)
            done = replace(done, added=done.added + 1)
            if tell is not None:
                tell(done.added)
    return done


def _payer(roster: Roster | None, name: str | None) -> Credential | None:
    if name is None:
        return None
    known = {} if roster is None else {one.credential.name: one.credential for one in roster.candidates.values()}
    if name not in known:
        raise BadInput(f"models.yaml has no credential {name!r}", hint="one of " + (", ".join(known) or "none"))
    return known[name]


def _candidate(roster: Roster | None, run: Run, payer: Credential | None) -> Candidate:
    for one in roster.candidates.values() if roster is not None else ():
        if (one.harness, one.model) == (run.harness, run.model) and payer in (None, one.credential):
            return one
    return Candidate("by hand", run.harness, run.model, payer or Credential("unknown", Billing.METERED))


def _store(store: Store, run: Run, candidate: Candidate, now: float) -> None:
    completed = run.outcome is OutcomeClass.COMPLETED
    new = NewTask(
        title=run.title,
        brief_text=run.prompt,
        brief_digest=digest(run.key, run.prompt),
        difficulty=Difficulty.MEDIUM,
        difficulty_reason="not known: it was run by hand",
        repository=run.folder or None,
        expect=Expect.REPORT,
        source=Source.IMPORT,
    )
    attempt: dict[str, object] = {
        "prompt": PromptKind.FIRST,
        "candidate": candidate.name,
        "harness": run.harness,
        "harness_version": run.harness_version,
        "model": run.model,
        "observed_model": run.model,
        "model_evidence": ModelEvidence.LOGGED,
        "credential": candidate.credential.name,
        "billing": candidate.credential.billing,
        "folder": "",
        "marker": run.key,
        "session_id": run.session_id,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "seconds": run.seconds,
        "outcome": run.outcome,
        "outcome_reason": run.reason,
        "exit_code": run.exit_code,
        "signal": run.signal,
        "usage": run.usage,
        "final_text": run.final_text,
        "host": run.host,
        "source": Source.IMPORT,
    }
    imported.add(store, new, attempt, Status.ACCEPTED if completed else Status.CANCELLED, "it was run by hand", now)
