"""`explain`: the story of a task in words. `show` prints what is known; this says what followed from what."""

from __future__ import annotations

import json
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.cli import home
from dispatcher.cli.render import clean, json_out, out
from dispatcher.cli.wording import clock, duration, money, tokens, until
from dispatcher.store import history, holds, queue
from dispatcher.supervisor import spec
from dispatcher.task import Action, Billing, ModelEvidence, OutcomeClass, Status
from dispatcher.words import of, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dispatcher.store import Store
    from dispatcher.task import Attempt, CheckResult, Hold, Task

_WIDTH = 100
_OF_ATTEMPTS = frozenset({"attempt_started", "attempt_ended", "claimed"})

_BEGAN = {
    "first": "was given the brief",
    "finish": "was asked to finish the work that was there",
    "continue": "was asked to go on with the work that was there",
    "confirm": "was asked to do what was left, or to say that nothing was",
    "approved": "went on at the call that had waited for an answer",
}
_DECIDED = {
    Action.CHECK: "the work is complete, and its checks have still to run",
    Action.REVIEW: "the work is ready for review",
    Action.FINISH: "the work is there, so it is finished and not done again",
    Action.CONTINUE: "part of the work is there, so another run goes on with it",
    Action.CONFIRM: "commits are there, but nothing proves that they are all of it, so that is asked",
    Action.REDISPATCH: "the brief is given out once more",
    Action.NEEDS_HUMAN: "a person is needed",
    Action.AWAIT_APPROVAL: "it waits for a person's answer",
    Action.CANCEL: "it ends here; what was made is kept",
}
_SAW = {
    "plugin": "our plugin in the worker",
    "log": "the worker's ERROR log",
    "stream": "the worker's events",
}
_MISMATCH = frozenset({OutcomeClass.BILLING_MISMATCH, OutcomeClass.MODEL_MISMATCH})
_CHARGED = "This is seen only when the first answer comes: that one turn was charged already."


def explain_task(number: int, explicit: Path | None, *, as_json: bool) -> None:
    with home.existing(explicit, reading=True) as store:
        task = queue.get(store, number)
        chapters = [*_attempts(store, task), *_happenings(store, task)]
    chapters.sort(key=lambda chapter: chapter["at"])  # stable: what an attempt led to stands behind it
    told = {"task": task.id, "title": task.title, "status": str(task.status), "begin": _begin(task)}
    document = {**told, "chapters": chapters, "now": _now(task, time.time())}
    if as_json:
        return json_out(document)
    return _print(document)


def _begin(task: Task) -> str:
    place = f" for {task.repository}" if task.repository else ", without a repository"
    return (
        f"Added {clock(task.created_at)}{place}. It counts as {task.difficulty}: {task.difficulty_reason}. "
        f"What proves it done: {_EXPECTED[str(task.expect)]}."
    )


_EXPECTED = {
    "commit": "a commit",
    "changes": "changed files",
    "report": "a text, and nothing changed",
}


# --- attempts -----------------------------------------------------------------------------------------------------


def _attempts(store: Store, task: Task) -> list[dict[str, Any]]:
    held, skipped = holds.of_task(store, task.id), _skipped(store, task.id)
    return [
        {
            "at": attempt.started_at,
            "kind": "attempt",
            "title": f"Attempt {attempt.number}",
            "attempt": attempt.number,
            "candidate": attempt.candidate,
            "outcome": None if attempt.outcome is None else str(attempt.outcome),
            "verdict": attempt.verdict,
            "skipped": skipped.get(attempt.id, []),
            "said": _said(attempt, history.checks_of(store, attempt.id), held.get(attempt.id, []), skipped),
        }
        for attempt in history.attempts(store, task.id)
    ]


def _skipped(store: Store, task_id: int) -> dict[int | None, list[dict[str, Any]]]:
    """The candidates that were passed over before each attempt."""
    return {
        event.attempt_id: json.loads(event.data)["skipped"]
        for event in queue.events(store, task_id)
        if event.kind == "skipped" and event.data and event.attempt_id is not None
    }


def _said(
    attempt: Attempt,
    checks: Sequence[CheckResult],
    held: list[Hold],
    skipped: dict[int | None, list[dict[str, Any]]],
) -> list[str]:
    """The sentences of one attempt, in the order in which things were known."""
    took = f", for {duration(attempt.seconds)}" if attempt.seconds is not None else ""
    began = f"{attempt.candidate} ({attempt.harness}, {attempt.model}) {_BEGAN[str(attempt.prompt)]}{took}."
    lines = [began, *(f"Skipped {_passed_over(one)}." for one in skipped.get(attempt.id, []))]
    if attempt.outcome is None:
        return [*lines, "It has not ended yet."]
    lines += [_seen(attempt), _ended(attempt), _git(attempt)]
    lines += [_decided(attempt), _checked(checks), *(_held(hold) for hold in held), _spent(attempt)]
    if attempt.outcome in _MISMATCH:
        lines.append(_CHARGED)
    lines += [_model(attempt), *(f"Note: {note}." for note in attempt.notes)]
    return [line for line in lines if line]


def _passed_over(one: dict[str, Any]) -> str:
    end = f", until {clock(one['until'])}" if one["until"] is not None else ""
    return f"{one['name']}: {one['reason']}{end or (' (only a person can change that)' if one['needs_person'] else '')}"


def _seen(attempt: Attempt) -> str:
    reason = attempt.outcome_reason.rstrip(".")
    proof = f" The proof: {attempt.proof}" if attempt.proof and attempt.proof.rstrip(".") not in reason else ""
    return f"Seen: {attempt.outcome}, {reason}.{proof}"


def _ended(attempt: Attempt) -> str:
    reason, signal, code, detection = attempt.end_reason, attempt.signal, attempt.exit_code, attempt.detection
    if reason is None:  # it could not be judged; what its supervisor wrote lies in its folder all the same
        record = spec.read_exit(Path(attempt.folder))
        if record is None:
            return _unrecorded(attempt)
        reason, signal, code, detection = str(record.reason), record.signal, record.exit_code, record.detection
    if reason == "exited":
        return f"It ended by itself with {f'signal {signal}' if signal else f'exit code {code}'}."
    if reason == "stopped":
        return "Its supervisor was told to end it."
    who = _SAW.get(detection or "", "")
    by = f" (seen live in {who})" if who and reason == "quota" else ""
    return f"Its supervisor ended it: {reason}{by}."


def _unrecorded(attempt: Attempt) -> str:
    if not Path(attempt.folder).is_dir():
        return "How it ended is not known: its folder is gone."
    if (Path(attempt.folder) / "exit.json").exists():
        return "Its exit record cannot be read."
    return "It left no exit record: its supervisor was killed, or the power went."


def _git(attempt: Attempt) -> str:
    if not attempt.evidence:
        return ""
    found = json.loads(attempt.evidence)
    if found.get("gone"):
        return f"In git: nothing can be seen, because {found['error']}."
    if found.get("error"):
        return f"git itself failed, so nothing it says counts: {found['error']}."
    commits, dirty = found.get("commits", []), found.get("dirty", [])
    parts = [
        f"{plural(len(commits), 'commit')} ({commits[-1]['subject']})" if commits else "",
        f"{plural(len(dirty), 'file')} not committed ({', '.join(dirty[:5])})" if dirty else "",
        f"commits elsewhere: {', '.join(found['elsewhere'])}" if found.get("elsewhere") else "",
    ]
    kept = f" All of it is kept on {attempt.snapshot_ref}." if attempt.snapshot_ref else ""
    return f"In git: {' and '.join(filter(None, parts)) or 'nothing changed'}.{kept}"


def _decided(attempt: Attempt) -> str:
    if attempt.verdict is None:
        return ""
    words = _DECIDED.get(Action(attempt.verdict), attempt.verdict)
    excused = not attempt.counted and attempt.outcome is not OutcomeClass.COMPLETED
    counted = " It does not count against the candidate." if excused else ""
    return f"Decided: {words}, because {attempt.verdict_reason.rstrip('.')}.{counted}"


def _checked(checks: Sequence[CheckResult]) -> str:
    if not checks:
        return ""
    failed = [("a hidden check" if c.hidden else f"`{c.command}`") for c in checks if not (c.passed or c.red_before)]
    red = sum(c.red_before and not c.passed for c in checks)
    words = f"{of(sum(c.passed for c in checks), len(checks), 'check')} passed"
    words += f", {red} failed on the base too and {'is' if red == 1 else 'are'} not the worker's fault" if red else ""
    return f"{words}; failed: {', '.join(failed)}." if failed else f"{words}."


def _held(hold: Hold) -> str:
    end = f"until {clock(hold.until)}" if hold.until is not None else "until a person lifts it"
    return f"Held: {hold.scope} {hold.key} {end}: {hold.reason.rstrip('.')}."


def _spent(attempt: Attempt) -> str:
    """List price and billed money are two things; what is not known is not told as nothing."""
    usage = attempt.usage
    used = [f"{tokens(usage.input)} tokens in" if usage.input is not None else ""]
    used += [f"{tokens(usage.output)} out" if usage.output is not None else ""]
    used += [f"{money(usage.cost_usd)} at list price" if usage.cost_usd is not None else ""]
    words = ", ".join(filter(None, used)) or "how much is unknown"
    paid = "what was billed is unknown" if attempt.billed_usd is None else f"{money(attempt.billed_usd)} billed"
    how = " by plan" if attempt.billed_usd == 0 and attempt.billing in (Billing.FREE, Billing.SUBSCRIPTION) else ""
    return f"Spent on {attempt.credential} ({attempt.billing}): {words}; {paid}{how}."


def _model(attempt: Attempt) -> str:
    if attempt.observed_model and attempt.observed_model != attempt.model:
        return f"{attempt.observed_model} answered ({attempt.model_evidence}); asked for was {attempt.model}."
    if attempt.model_evidence is ModelEvidence.UNVERIFIED:
        return "Nothing in its output proves which model answered."
    return ""


# --- what happened beside them ------------------------------------------------------------------------------------


def _happenings(store: Store, task: Task) -> list[dict[str, Any]]:
    """Waits, what people did, judgements: every event that is not an attempt's own."""
    found = []
    for event in queue.events(store, task.id):
        if event.kind in _OF_ATTEMPTS or event.kind == "added" or (event.kind == "skipped" and event.attempt_id):
            continue
        said = [event.text + (f" (by {event.by})" if event.by != queue.BY else "")]
        skipped: list[dict[str, Any]] = []
        if event.kind == "skipped" and event.data:
            skipped = json.loads(event.data)["skipped"]
            said = ["No candidate could be used.", *(f"Skipped {_passed_over(one)}." for one in skipped)]
        found.append({"at": event.at, "kind": event.kind, "title": "", "skipped": skipped, "said": said})
    return found


def _now(task: Task, now: float) -> str:
    if task.status is Status.WAITING and task.not_before is not None:
        return f"It waits: {task.status_reason}. Next try {until(task.not_before, now).removeprefix('until ')}."
    if task.until_lifted:
        return f"It waits until a hold is lifted: {task.status_reason}. Next: dispatcher holds"
    if task.status in _TO_DO:
        return f"It is {task.status}: {task.status_reason}. Next: {_TO_DO[task.status].format(task.id)}"
    return f"It is {task.status}" + (f": {task.status_reason}." if task.status_reason else ".")


_TO_DO = {
    Status.NEEDS_REVIEW: "dispatcher review {}",
    Status.NEEDS_HUMAN: "dispatcher retry {}, when what is in the way is gone",
    Status.AWAITING_APPROVAL: "answer the call that waits",
    Status.PAUSED: "dispatcher resume {}",
    Status.QUEUED: "dispatcher run --task {}",
    Status.FAILED: "dispatcher bug-report {}",
}


def _print(told: dict[str, Any]) -> None:
    out(f"Task {told['task']}: {clean(told['title'])}")
    _paragraph(told["begin"], "")
    for chapter in told["chapters"]:
        out()
        if chapter["title"]:
            out(f"{clean(chapter['title'])}, {clock(chapter['at'])}")
            for line in chapter["said"]:
                _paragraph(line, "  ")
        else:
            first, *rest = chapter["said"]
            _paragraph(f"{clock(chapter['at'])}  {first}", "")
            for line in rest:
                _paragraph(line, "  ")
    out()
    _paragraph(told["now"], "")


def _paragraph(text: str, indent: str) -> None:
    lines = textwrap.wrap(clean(text), _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
    for line in lines or [""]:
        out(line)
