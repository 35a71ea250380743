"""After an attempt: outcome, evidence, verdict, checks, log. Works from the row and the folder alone.

So the same code settles an attempt that this process watched, one whose dispatcher was killed, and one that a power cut
left without an exit record. One settler wins: the row is only written while it has no end.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from dispatcher import approving, enclosure, pull_request, review, routing, verdict
from dispatcher import checks as checking
from dispatcher.errors import DispatcherError
from dispatcher.repository import delivery, evidence
from dispatcher.repository.marker import identity_of
from dispatcher.runner import consequences, offline, questions
from dispatcher.runner.attempt import BEFORE_FILE, TRACE_FILE
from dispatcher.runner.place import Place, place_of
from dispatcher.runner.reading import read_outcome, with_words
from dispatcher.runner.settings import Settings, settings_for
from dispatcher.store import approvals, history, holds, queue
from dispatcher.supervisor import client, spec
from dispatcher.task import (
    Action,
    Attempt,
    Candidate,
    Checks,
    Deliver,
    Evidence,
    ExitRecord,
    Expect,
    NextStep,
    Outcome,
    OutcomeClass,
    Shape,
    Status,
    Task,
    Verdict,
)

if TYPE_CHECKING:
    from dispatcher.runner.context import Context

_RESTS = {
    Action.REVIEW: Status.NEEDS_REVIEW,
    Action.NEEDS_HUMAN: Status.NEEDS_HUMAN,
    Action.AWAIT_APPROVAL: Status.AWAITING_APPROVAL,
    Action.CANCEL: Status.CANCELLED,
}


_CUT_OFF = frozenset(  # what may end a worker that holds a call
    {
        OutcomeClass.AWAITING_APPROVAL,
        OutcomeClass.STOPPED,
        OutcomeClass.LOST,
        OutcomeClass.KILLED,
        OutcomeClass.UNKNOWN,
        OutcomeClass.EMPTY_OUTPUT,
        OutcomeClass.TIMED_OUT,
        OutcomeClass.STALLED,
    }
)


@dataclass(frozen=True)
class Findings:
    """Everything that is known of an ended attempt before it is judged."""

    exit: ExitRecord | None
    outcome: Outcome
    evidence: Evidence
    snapshot_ref: str | None
    worker: dict[str, object]  # which process it was


@dataclass(frozen=True)
class End:
    """What is written of an ended attempt and of its task."""

    found: Findings
    judged: Verdict
    results: Checks | None
    delivered: delivery.Delivered | None
    rests: Status | None  # None: the task goes on
    not_before: float | None  # epoch seconds; it is tried again then, if it waits


async def settle(ctx: Context, task: Task, attempt: Attempt) -> tuple[Task, float]:
    """Judge and log one ended attempt. Gives the task as it stands now and the seconds to wait before it goes on.

    An attempt whose settlement was stopped (`NextStep.settle`) is settled once more, from the beginning.
    """
    settings = settings_for(ctx.config, task)
    place = place_of(ctx, task)
    found = await examine(ctx, task, attempt, place)
    judged, results = await judge(ctx, task, attempt, settings, place, found)
    waits = offline.notice(ctx, task, attempt, settings, found.outcome) if judged.next is not None else None
    if waits is not None:
        judged = offline.unpunished(ctx, task, attempt, judged)
    delivered = await deliver(ctx, task, attempt, place, found, judged)
    rests = Status.WAITING if waits is not None else resting(task, settings, judged, results)
    end = End(found, judged, results, delivered, rests, waits)
    if settings.deliver is Deliver.PR and delivered is not None and judged.action is Action.REVIEW:
        await propose(ctx, task, attempt, settings, place, end, delivered.branch)
    return write(ctx, task, attempt, end), judged.delay


async def examine(ctx: Context, task: Task, attempt: Attempt, place: Place) -> Findings:
    folder = Path(attempt.folder)
    record, worker = spec.read_exit(folder), client.worker_of(folder)
    outcome = outcome_of(attempt, record, ctx.clock())  # first: what a worker says while we end it proves nothing
    if record is None:
        await to_thread.run_sync(client.end_leftovers, folder, attempt.marker)
    await to_thread.run_sync(enclosure.end_containers, ctx.config, attempt.marker)
    candidate = ctx.config.roster.candidates.get(attempt.candidate)
    outcome = await to_thread.run_sync(consequences.compare, attempt, candidate, outcome)
    outcome = still_waiting(ctx, task, attempt, outcome)
    if place.base is None:
        return Findings(record, outcome, Evidence(), None, worker)
    found = gone(ctx, task, place)
    if found is None:
        found = await to_thread.run_sync(look, place, folder)
    outcome = unsigned(task, outcome, found)
    kept, target = None, place.target
    if found.shape is not Shape.NOTHING and target is not None:
        kept = await to_thread.run_sync(
            lambda: delivery.keep(place.copy, target, task=str(task.id), attempt=str(attempt.number))
        )
    return Findings(record, outcome, found, kept, worker)


def outcome_of(attempt: Attempt, record: ExitRecord | None, now: float) -> Outcome:
    """As the folder says; as the row says when that is gone, and the attempt was judged before."""
    if attempt.ended_at is None or Path(attempt.folder).is_dir():
        return read_outcome(attempt, record, now)
    kind = attempt.outcome or OutcomeClass.LOST
    reason = attempt.outcome_reason or "its folder is gone"
    return Outcome(
        kind,
        reason,
        attempt.proof,
        positive=kind is OutcomeClass.COMPLETED,
        session_id=attempt.session_id,
        final_text=attempt.final_text,
        usage=attempt.usage,
        observed_model=attempt.observed_model,
    )


def still_waiting(ctx: Context, task: Task, attempt: Attempt, outcome: Outcome) -> Outcome:
    """A question outlives whatever ended its worker: without its answer the task would lose the call."""
    questions.collect(ctx, task, attempt)
    asked = [one for one in approvals.of_attempt(ctx.store, attempt.id) if one.consumed_at is None]
    if not asked or outcome.positive or outcome.kind not in _CUT_OFF:
        return outcome
    last = asked[-1]
    approving.keep_transcript(attempt, last)
    reason = f"a call waits for a person: {last.tool} (approval {last.id})"
    session = outcome.session_id or last.session_id
    return replace(outcome, kind=OutcomeClass.AWAITING_APPROVAL, reason=reason, session_id=session, hold=None)


def gone(ctx: Context, task: Task, place: Place) -> Evidence | None:
    """What a person must hear when a folder that git needs is not there any more; git's own words would not say it."""
    if place.target is not None and not place.target.is_dir():
        return Evidence(error=f"the repository {place.target} is gone", gone=True)
    if place.copy.is_dir():
        return None
    refs = [attempt.snapshot_ref for attempt in history.attempts(ctx.store, task.id) if attempt.snapshot_ref]
    kept = f"what it last held is kept on {refs[-1]} of {place.target}" if refs else "nothing of it was kept before"
    return Evidence(error=f"the task copy {place.copy} is gone; {kept}", gone=True)


def look(place: Place, folder: Path) -> Evidence:
    try:
        start = evidence.TaskBase.from_json((folder / BEFORE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        start = None  # a crash while it was written: no worker was started then
    assert place.base is not None
    note = delivery.clear_stale_lock(place.copy)
    found = evidence.inspect(place.copy, place.base, start, trace=folder / TRACE_FILE, target=place.target)
    found = with_words(found, folder)
    return found if note is None else replace(found, notes=(*found.notes, note))


def unsigned(task: Task, outcome: Outcome, found: Evidence) -> Outcome:
    """Work that no model can commit because its signature fails; a hold that the run asked for stays in force."""
    if found.signing_error is None or not found.dirty or task.expect is not Expect.COMMIT:
        return outcome
    if outcome.hold is not None or outcome.kind in (OutcomeClass.CANCELLED, OutcomeClass.AWAITING_APPROVAL):
        return outcome
    reason = f"git could not sign the commit: {found.signing_error}"
    return replace(outcome, kind=OutcomeClass.GIT_SIGNING, reason=reason, proof=reason, positive=False)


async def judge(
    ctx: Context, task: Task, attempt: Attempt, settings: Settings, place: Place, found: Findings
) -> tuple[Verdict, Checks | None]:
    """The verdict; where it says that the work is complete, the checks run and it is asked again."""
    candidate = ctx.config.roster.candidates.get(attempt.candidate)
    situation = verdict.Situation(
        outcome=found.outcome,
        evidence=found.evidence,
        counters=queue.get(ctx.store, task.id).counters,
        limits=settings.limits,
        expect=settings.expect,
        prompt=attempt.prompt,
        candidate=attempt.candidate,
        session_id=found.outcome.session_id or attempt.session_id,
        checks=None,
        has_checks=checking.has_any(settings),
        difficulty=task.difficulty,
        avoid=task.next.avoid,
        candidate_held=found.outcome.hold is not None or is_held(ctx, candidate),
        note=task.next.note,
        can_escalate=can_escalate(ctx, task, settings),
    )
    judged = verdict.judge(situation)
    if judged.action is not Action.CHECK or not queue.get(ctx.store, task.id).runs_under(ctx.owner):
        return judged, None
    ctx.say(task, attempt, "runs the checks")
    try:
        results = await checking.run(ctx, task, attempt, settings, place, found.evidence, found.snapshot_ref)
    except checking.Withdrawn:
        return judged, None
    return verdict.judge(replace(situation, checks=results)), results


def can_escalate(ctx: Context, task: Task, settings: Settings) -> bool:
    """Whether one level up there is another route that may be used; a brief that names its candidates keeps them."""
    return not settings.brief.candidates and routing.harder(ctx.config.roster, task.difficulty) is not None


def is_held(ctx: Context, candidate: Candidate | None) -> bool:
    now = ctx.clock()
    return candidate is None or any(routing.blocks(hold, candidate, now) for hold in holds.active(ctx.store, now))


async def deliver(
    ctx: Context, task: Task, attempt: Attempt, place: Place, found: Findings, judged: Verdict
) -> delivery.Delivered | None:
    """Commits of a task that rests become a branch of the target, with trailers that say who made them."""
    cancelled = queue.get(ctx.store, task.id).status is Status.CANCELLED
    if judged.action not in (Action.REVIEW, Action.NEEDS_HUMAN, Action.CANCEL) and not cancelled:
        return None
    target, base = place.target, place.base
    uncommitted = judged.action is Action.REVIEW and bool(found.evidence.dirty)
    if target is None or base is None or not (found.evidence.commits or uncommitted):
        return None
    trailers = {
        "Dispatcher-Task": str(task.id),
        "Dispatcher-Model": found.outcome.observed_model or attempt.model,
        "Dispatcher-Harness": f"{attempt.harness} {attempt.harness_version or ''}".strip(),
    }
    return await to_thread.run_sync(
        lambda: delivery.deliver(
            place.copy,
            target,
            branch=branch_name(task),
            owner=f"{task.id}-{identity_of(task)}",
            base=base.base,
            trailers=trailers,
            uncommitted=task.title if uncommitted else None,
        )
    )


def branch_name(task: Task) -> str:
    """`dispatcher/<task>-<slug of the title>`, in letters that every shell and every file system takes."""
    words = re.sub(r"[^a-z0-9]+", "-", task.title.lower()).strip("-")[:40].strip("-")
    return f"dispatcher/{task.id}-{words}" if words else f"dispatcher/{task.id}"


async def propose(
    ctx: Context,
    task: Task,
    attempt: Attempt,
    settings: Settings,
    place: Place,
    end: End,
    branch: str,
) -> None:
    """A pull request for work that is done; why there is none is told and changes nothing.

    Asked for while the attempt is still open: whoever is killed here settles it again, and then finds the one that is
    there. A task that was paused meanwhile has its turn when it goes on.
    """
    if not queue.get(ctx.store, task.id).runs_under(ctx.owner):
        return
    assert place.target is not None
    assert place.base is not None
    base, body = settings.brief.base or place.base.branch, pull_request_text(task, attempt, end)
    try:
        said = await to_thread.run_sync(
            pull_request.open_one, place.target, branch, base, task.title, body, ctx.environ
        )
    except DispatcherError as error:
        said = f"no pull request: {describe(error)}"
    else:
        said = f"pull request {said}"
    ctx.say(task, attempt, said)
    queue.update(ctx.store, task.id, ctx.clock(), event=said)


def pull_request_text(task: Task, attempt: Attempt, end: End) -> str:
    words = (end.found.outcome.final_text or task.final_text or "").strip()
    return f"{end.judged.reason}\n\nTask {task.id}, {attempt.harness} with {attempt.model}.\n\n{words}\n"


def resting(task: Task, settings: Settings, judged: Verdict, results: Checks | None) -> Status | None:
    """The status in which the task rests; None: it goes on."""
    if judged.action is Action.REVIEW and review.needs_nobody(task, settings.auto_accept, judged, results):
        return Status.ACCEPTED
    return _RESTS.get(judged.action)


def write(ctx: Context, task: Task, attempt: Attempt, end: End) -> Task:
    """One transaction: the attempt's end, the task's next step, event, holds, and a judgement that needed nobody."""
    with ctx.store.write() as transaction:
        if not close(ctx, task, attempt, end):
            return queue.get(ctx.store, task.id)
        if end.rests is Status.AWAITING_APPROVAL:  # answered while it was being parked
            asked = approvals.of_attempt(ctx.store, attempt.id)
            note = approving.note_of(asked[-1]) if asked else ""
            approvals.release(ctx.store, transaction, task.id, ctx.clock(), "answered meanwhile", note)
        fresh = queue.get(ctx.store, task.id)
        if end.rests is Status.ACCEPTED:
            review.log(ctx.store, fresh, history.get_attempt(ctx.store, attempt.id), ctx.clock())
    delivered = end.delivered
    where = f"; delivered as {delivered.sha[:10]} on {delivered.branch}" if delivered is not None else ""
    ctx.say(fresh, attempt, f"{end.found.outcome.kind} -> {end.judged.action}: {end.judged.reason}{where}")
    return fresh


def close(ctx: Context, task: Task, attempt: Attempt, end: End) -> bool:
    """False when somebody else has settled this attempt already."""
    now, found, judged = ctx.clock(), end.found, end.judged
    if end.results is not None:
        history.save_checks(ctx.store, attempt.id, end.results)
    candidate = ctx.config.roster.candidates.get(attempt.candidate)
    asked = []
    if candidate is not None and attempt.ended_at is None:  # else they were placed when it was judged first
        asked = consequences.asked_holds(ctx, attempt, candidate, found.outcome, judged, now)
    written = history.get_attempt(ctx.store, attempt.id).notes  # what was noted at the start stays
    settled = history.end_attempt(
        ctx.store,
        attempt.id,
        now,
        attempt_fields={
            **attempt_fields(end),
            "billed_usd": consequences.billed(attempt, found.outcome),
            "notes": tuple(dict.fromkeys((*written, *found.outcome.notes, *found.evidence.notes, *_told(found)))),
        },
        task_fields=task_fields(ctx, task, attempt, end),
        event=f"attempt {attempt.number} on {attempt.candidate}: {found.outcome.kind} "
        f"({found.outcome.reason}) -> {judged.action}: {judged.reason}",
        holds=asked,
        owner=ctx.owner,
        again=attempt.ended_at is not None,
    )
    if found.outcome.kind is OutcomeClass.COMPLETED and candidate is not None:
        holds.clear_short(ctx.store, candidate, now)
    return settled


def _told(found: Findings) -> tuple[str, ...]:
    """What the supervisor noted: a log that was cut, a daemon that was left, a clock that jumped."""
    return found.exit.notes if found.exit is not None else ()


def attempt_fields(end: End) -> dict[str, object]:
    found, judged = end.found, end.judged
    record, outcome = found.exit, found.outcome
    fields: dict[str, object] = {
        "outcome": outcome.kind,
        "outcome_reason": outcome.reason,
        "proof": outcome.proof,
        "verdict": str(judged.action),
        "verdict_reason": judged.reason,
        "counted": judged.counted,
        "usage": outcome.usage,
        "observed_model": outcome.observed_model,
        "model_evidence": outcome.model_evidence,
        "session_id": outcome.session_id,
        "final_text": outcome.final_text,
        "evidence": json.dumps(asdict(found.evidence)),
        "snapshot_ref": found.snapshot_ref,
        "result_commit": end.delivered.sha if end.delivered else found.evidence.head,
        **found.worker,
    }
    if record is not None:
        fields |= {
            "exit_code": record.exit_code,
            "signal": record.signal,
            "timed_out": record.timed_out,
            "end_reason": str(record.reason),
            "survivors": record.survivors,
            "detection": record.detection,
            "seconds": record.active_seconds,
        }
    return {name: value for name, value in fields.items() if value is not None}


def task_fields(ctx: Context, task: Task, attempt: Attempt, end: End) -> dict[str, object]:
    current, found, judged = queue.get(ctx.store, task.id), end.found, end.judged
    fields: dict[str, object] = {
        "counters": judged.counters,
        "next": judged.next or at_rest(ctx, current, attempt, end),
        "status_reason": judged.reason,
        "flags": tuple(dict.fromkeys((*current.flags, *judged.flags))),
    }
    if found.outcome.final_text:
        fields["final_text"] = found.outcome.final_text
    if judged.escalate:
        fields["difficulty"] = task.difficulty.harder
        fields["difficulty_reason"] = f"escalated from {task.difficulty}: {judged.reason}"
    if end.delivered is not None:
        fields |= {"branch": end.delivered.branch, "result_commit": end.delivered.sha}
    if end.rests is Status.NEEDS_HUMAN and found.snapshot_ref is not None:
        fields["status_reason"] = f"{judged.reason}; the work is on {found.snapshot_ref}"
    if current.status is Status.RUNNING and end.rests is not None:
        fields["status"] = end.rests
    if end.not_before is not None:
        fields["not_before"] = end.not_before
    return fields


def at_rest(ctx: Context, current: Task, attempt: Attempt, end: End) -> NextStep:
    """What comes next when no attempt does. Work whose settlement is not over is not given to a worker again.

    It is not over when the checks have not run to their end, or when a person took the task away before it could rest.
    Whoever takes up a cancelled task again wants more than a refusal that was on its way, but not finished work anew.
    """
    judged, results = end.judged, end.results
    finished = judged.action in (Action.CHECK, Action.REVIEW)
    taken = not current.runs_under(ctx.owner)
    unchecked = judged.action is Action.CHECK or (results is not None and results.error is not None)
    if unchecked or (taken and (finished or current.status is not Status.CANCELLED)):
        return replace(current.next, settle=attempt.id)
    return NextStep()


def describe(error: DispatcherError) -> str:
    return error.message if error.hint is None else f"{error.message} ({error.hint})"
