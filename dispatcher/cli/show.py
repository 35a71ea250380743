"""`show` and `work`: one task whole, in the order in which things happened."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from dispatcher.cli import home, idle, links
from dispatcher.cli.render import clean, clean_block, json_out, out
from dispatcher.cli.wording import clock, delivered, duration, money, plural, tokens, until
from dispatcher.errors import NotFound
from dispatcher.store import history, lookup, queue, reviews
from dispatcher.task import Status

if TYPE_CHECKING:
    from pathlib import Path

    from dispatcher.store import Store
    from dispatcher.task import Attempt, CheckResult, Task


_LONGEST = 1024 * 1024  # bytes of one line
_PATHS = frozenset({"brief", "copy", "repository", "files"})
_GOES_ON = frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING, Status.PAUSED})


def show_task(number: int, explicit: Path | None, *, brief: bool, only: int | None, as_json: bool) -> None:
    if as_json:
        idle.refuse("with --json", {"--brief": brief}, "JSON has the brief too")
    with home.existing(explicit, reading=True) as store:
        task = queue.get(store, number)
        attempts = history.attempts(store, number)
        if only is not None:
            attempts = [pick_attempt(attempts, number, only)]
        if as_json:
            return json_out(_document(store, task, attempts))
        _print(store, task, attempts)
    if brief:
        out(f"\n--- brief ---\n{clean_block(task.brief_text)}")
    return None


def show_file(number: int, explicit: Path | None, *, attempt: int | None, names: list[str]) -> None:
    """Files of one attempt, line by line: they may be as large as `log_bytes` allows."""
    from pathlib import Path

    with home.existing(explicit, reading=True) as store:
        queue.get(store, number)
        folder = Path(pick_attempt(history.attempts(store, number), number, attempt).folder)
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                while line := file.readline(_LONGEST):
                    out(clean_block(line.decode("utf-8", "replace").rstrip("\n")))
        except BrokenPipeError:  # of the reader, not of the file
            raise
        except OSError as error:
            hint = "prune removes old attempt folders; an import brings none"
            raise NotFound(f"{folder / name} cannot be read: {error.strerror}", hint=hint) from None


def pick_attempt(attempts: list[Attempt], task: int, number: int | None) -> Attempt:
    """The one with this number; None: the last."""
    if not attempts:
        raise NotFound(f"task {task} has no attempt yet", hint="start it with: dispatcher run")
    for attempt in attempts:
        if number in (None, attempt.number) and (number is not None or attempt is attempts[-1]):
            return attempt
    raise NotFound(f"task {task} has no attempt {number}", hint=f"it has {len(attempts)}")


def print_copy(number: int, explicit: Path | None) -> None:
    with home.existing(explicit, reading=True) as store:
        task = queue.get(store, number)
    if task.copy_path is None:
        raise NotFound(f"task {number} has no copy yet", hint="a copy is made when the task first runs")
    out(task.copy_path)


def _document(store: Store, task: Task, attempts: list[Attempt]) -> dict[str, Any]:
    """The shape of `show --json`: the task's fields, its attempts with checks and evidence, its events."""
    found = {row["attempt"]: row for row in lookup.find(store, lookup.Query({"task": [task.id]}, limit=0))}
    rows = [found[attempt.number] for attempt in attempts]
    for row, attempt in zip(rows, attempts, strict=True):
        row["proof"] = attempt.proof
        row["notes"] = list(attempt.notes)
        row["final_text"] = attempt.final_text
        row["snapshot_ref"] = attempt.snapshot_ref
        row["evidence"] = evidence_of(attempt)
        row["checks"] = history.checks_of(store, attempt.id)
    return {
        "task": task,
        "attempts": rows,
        "reviews": reviews.of(store, task.id),
        "approvals": _approvals(store, task.id),
        "events": list(queue.events(store, task.id)),
    }


def _approvals(store: Store, task_id: int) -> list[dict[str, Any]]:
    return [dict(row) for row in store.read("SELECT * FROM v_approvals WHERE task_id = ? ORDER BY id", (task_id,))]


def evidence_of(attempt: Attempt) -> dict[str, Any] | None:
    """What git said, as it was stored; None when there is nothing, or nothing that can be read."""
    try:
        found = json.loads(attempt.evidence) if attempt.evidence else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _print(store: Store, task: Task, attempts: list[Attempt]) -> None:
    out(f"task {task.id}: {clean(task.title)}")
    for name, value in _facts(task):
        if value:
            out(f"  {name:<11} {links.file(value) if name in _PATHS else clean(value)}")
    for attempt in attempts:
        _print_attempt(store, attempt)
    _print_judgements(store, task)
    out("\nhistory")
    for event in queue.events(store, task.id):
        by = f"  [{clean(event.by)}]" if event.by and event.by != "dispatcher" else ""
        out(f"  {clock(event.at)}  {clean(event.text)}{by}")
    if task.final_text:
        out(f"\nlast words of the worker\n{_indented(task.final_text)}")


def _print_judgements(store: Store, task: Task) -> None:
    for review in reviews.of(store, task.id):
        words = f": {review.text}" if review.text else ""
        out(f"\nreview: {review.decision} by {clean(review.by)} ({review.kind}){clean(words)}")
    for call in _approvals(store, task.id):
        answer = f" by {call['answered_by']}" if call["answered_by"] else ""
        out(clean(f"approval {call['id']}: {call['status']}{answer}: {call['tool']} {call['input'][:200]}"))


def _facts(task: Task) -> list[tuple[str, str]]:
    counters = task.counters
    return [
        ("status", f"{task.status}: {task.status_reason}" if task.status_reason else str(task.status)),
        ("next try", until(task.not_before, time.time()) if task.not_before is not None else ""),
        ("difficulty", f"{task.difficulty} ({task.difficulty_reason})"),
        ("repository", task.repository or "none"),
        ("brief", task.brief_path or "from stdin"),
        ("copy", task.copy_path or ""),
        ("branch", task.branch or ""),
        ("delivered", delivered(task.result_commit, task.branch)),
        ("commit", "" if task.branch else task.result_commit or ""),
        ("flags", ", ".join(task.flags)),
        ("next prompt", _next(task) if task.status in _GOES_ON else ""),
        (
            "counters",
            f"{plural(counters.starts, 'start')}, {plural(counters.attempts, 'redispatch', 'redispatches')}, "
            f"{plural(counters.finish_attempts, 'finish prompt')}",
        ),
    ]


def _next(task: Task) -> str:
    return str(task.next.prompt) if task.next.settle is None else "none: its work is there, its checks go on"


def _print_attempt(store: Store, attempt: Attempt) -> None:
    took = duration(attempt.seconds) or "running"
    out(f"\nattempt {attempt.number}: {attempt.prompt} prompt to {clean(attempt.candidate)} ({took})")
    for name, value in _attempt_facts(attempt):
        if value:
            out(f"  {name:<11} {links.file(value) if name in _PATHS else clean(value)}")
    for check in history.checks_of(store, attempt.id):
        out(f"  {'check':<11} {_check(check)}")
    for line in attempt.notes:
        out(f"  {'note':<11} {clean(line)}")


def _attempt_facts(attempt: Attempt) -> list[tuple[str, str]]:
    usage = attempt.usage
    model = attempt.model
    if attempt.observed_model and attempt.observed_model != attempt.model:
        model += f", answered by {attempt.observed_model}"
    kinds = [
        ("in", usage.input),
        ("out", usage.output),
        ("cache read", usage.cache_read),
        ("cache write", usage.cache_write),
        ("reasoning", usage.reasoning),
    ]
    spent = [
        *(f"{tokens(count)} {kind}" for kind, count in kinds if count is not None),
        f"{money(usage.cost_usd)} list price" if usage.cost_usd is not None else "",
        f"{money(attempt.billed_usd) or 'unknown'} billed" if attempt.ended_at is not None else "",
    ]
    return [
        ("model", f"{model} ({attempt.model_evidence}) on {attempt.credential} ({attempt.billing})"),
        ("run by", _run_by(attempt)),
        ("outcome", f"{attempt.outcome}: {attempt.outcome_reason}" if attempt.outcome else "in flight"),
        ("proof", attempt.proof),
        ("ended", _ended(attempt)),
        ("git", _evidence(attempt)),
        ("verdict", f"{attempt.verdict}: {attempt.verdict_reason}" if attempt.verdict else ""),
        ("commits", _commits(attempt)),
        ("kept", attempt.snapshot_ref or ""),
        ("used", ", ".join(filter(None, spent))),
        ("files", attempt.folder),
    ]


def _run_by(attempt: Attempt) -> str:
    harness = f"{attempt.harness} {attempt.harness_version or ''}".strip()
    session = f", session {attempt.session_id}" if attempt.session_id else ""
    return f"{harness} on {attempt.host or 'this machine'} ({attempt.source}{session})"


def _commits(attempt: Attempt) -> str:
    base, result = attempt.base_commit, attempt.result_commit
    return f"{(base or 'none')[:12]} -> {(result or 'none')[:12]}" if base or result else ""


def _ended(attempt: Attempt) -> str:
    parts = [
        attempt.end_reason or "",
        f"exit {attempt.exit_code}" if attempt.exit_code is not None else "",
        f"signal {attempt.signal}" if attempt.signal is not None else "",
        "at the hard cap" if attempt.timed_out else "",
        f"{plural(attempt.survivors, 'process', 'processes')} survived" if attempt.survivors else "",
    ]
    return ", ".join(filter(None, parts))


def _evidence(attempt: Attempt) -> str:
    found = evidence_of(attempt)
    if found is None:
        return ""
    if found.get("error"):
        return f"git failed: {found['error']}"
    commits, dirty = found.get("commits", []), found.get("dirty", [])
    parts = [
        f"{plural(len(commits), 'commit')}: {commits[-1]['subject']}" if commits else "",
        f"{len(dirty)} uncommitted: {', '.join(dirty[:5])}{' ...' if len(dirty) > 5 else ''}" if dirty else "",
        f"elsewhere: {', '.join(found['elsewhere'])}" if found.get("elsewhere") else "",
    ]
    return "; ".join(filter(None, parts)) or "nothing changed"


def _check(check: CheckResult) -> str:
    word = "passed" if check.passed else "failed on the base too" if check.red_before else "FAILED"
    return clean(f"{word}: {'hidden check' if check.hidden else check.command} ({duration(check.seconds)})")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in clean_block(text).splitlines())
