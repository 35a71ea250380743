"""`review`: what a task left, and a judgement of it - by a person, or by a second model that may only read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.cli import home, idle
from dispatcher.cli.render import clean, clean_block, json_out, note, out
from dispatcher.cli.wording import clock, delivered, duration, money, tokens
from dispatcher.errors import BadInput, NotFound
from dispatcher.store import history, queue, reviews
from dispatcher.task import CheckResult, Status, Task
from dispatcher.words import plural

if TYPE_CHECKING:
    from dispatcher.store import Store

_WAYS = ("ff", "merge", "squash")
_FINISHED = frozenset({Status.NEEDS_REVIEW, Status.NEEDS_HUMAN, Status.ACCEPTED, Status.REJECTED})


def review_task(
    number: int,
    explicit: Path | None,
    *,
    accept: bool,
    reject: bool,
    words: str | None,
    into: str | None,
    how: str | None,
    follow_up: bool,
    reviewer: str | None,
    diff: bool,
    as_json: bool,
) -> int:
    _refuse_nonsense(accept, reject, words, into, how, follow_up, reviewer)
    _refuse_idle(
        "--accept" if accept else "--reject" if reject else "--note" if words is not None else "", diff, as_json
    )
    code = 0
    with home.existing(explicit) as store:
        task = queue.get(store, number)
        _refuse_too_early(store, task)
        if reviewer is not None:
            code = _ask(store, task, explicit, reviewer)
        if accept:
            out(_accept(store, task, words or "", into, how))
        elif reject:
            out(_reject(store, task, words or "", follow_up=follow_up))
        elif words is not None:
            reviews.write(store, task, time.time(), "advice", kind="person", by=home.person(), text=words)
            out(f"task {number}: your words are stored")
        elif diff:
            out(clean_block(_diff(task)))
        elif as_json:
            json_out(_document(store, queue.get(store, number)))
        else:
            _print(store, _document(store, queue.get(store, number)))
    return code


def _refuse_too_early(store: Store, task: Task) -> None:
    if task.result_commit is None and not history.attempts(store, task.id):
        raise BadInput(
            f"task {task.id} is {task.status}: nothing was done yet, so there is nothing to review",
            hint=f"dispatcher run, or dispatcher show {task.id}",
        )


def _refuse_nonsense(
    accept: bool, reject: bool, words: str | None, into: str | None, how: str | None, follow_up: bool, who: str | None
) -> None:
    if accept and reject:
        raise BadInput("--accept and --reject cannot both be meant")
    if who is not None and (accept or reject):
        raise BadInput("--with asks for findings; decide when you have read them", hint="leave out the decision")
    if reject and not (words or "").strip():
        raise BadInput("a rejection needs its reason", hint='--reject --note "what is wrong"')
    if into is not None and not accept:
        raise BadInput("--into goes with --accept")
    if how is not None and into is None:
        raise BadInput("--how goes with --accept --into BRANCH")
    if how is not None and how not in _WAYS:
        raise BadInput(f"--how cannot be {how!r}", hint=f"one of: {', '.join(_WAYS)}")
    if follow_up and not reject:
        raise BadInput("--follow-up goes with --reject --note TEXT")


def _refuse_idle(decision: str, diff: bool, as_json: bool) -> None:
    if decision:
        idle.refuse(f"with {decision}", {"--diff": diff, "--json": as_json}, "look first, then decide")
    elif diff:
        idle.refuse("with --diff", {"--json": as_json}, "a patch is printed as it is; leave out one of them")


# --- deciding -----------------------------------------------------------------------------------------------------


def _accept(store: Store, task: Task, words: str, into: str | None, how: str | None) -> str:
    """Into the branch first, then the row: what was refused is not accepted."""
    if task.status not in _FINISHED - {Status.REJECTED} or (task.status is Status.ACCEPTED and into is None):
        raise BadInput(
            f"task {task.id} is {task.status}: there is nothing to accept", hint=f"dispatcher show {task.id}"
        )
    by, now = home.person(), time.time()
    data: dict[str, object] = {}
    said = f"task {task.id} accepted: {clean(task.title)}"
    if into is not None:
        landed = _bring(task, into, how)
        data = {"into": into, "how": how or "ff", "sha": landed.sha}
        words = words or f"into {into} as {landed.sha[:10]}"
        said += f"\n  {clean(into)} is now {landed.sha[:10]}" + (f" ({clean(landed.note)})" if landed.note else "")
    if task.status is Status.ACCEPTED:
        reviews.write(store, task, now, "accepted", kind="person", by=by, text=words, data=data)
    else:
        reviews.decide(store, task, now, Status.ACCEPTED, by=by, text=words, data=data)
    return said


def _bring(task: Task, into: str, how: str | None) -> Any:
    from dispatcher.repository import delivery

    target, commit = _result(task)
    method = delivery.How(how or "ff")
    message = None
    if method is delivery.How.MERGE:
        message = f"Merge {task.branch or commit[:10]} into {into}\n\n{task.title}\n\nDispatcher-Task: {task.id}"
    return delivery.accept_into(target, commit, into=into, how=method, message=message)


def _reject(store: Store, task: Task, words: str, *, follow_up: bool) -> str:
    if task.status not in (Status.NEEDS_REVIEW, Status.NEEDS_HUMAN):
        raise BadInput(
            f"task {task.id} is {task.status}: there is nothing to reject", hint=f"dispatcher show {task.id}"
        )
    with store.write():
        reviews.decide(store, task, time.time(), Status.REJECTED, by=home.person(), text=words)
        said = f"task {task.id} rejected: {clean(task.title)}"
        return said + (f"\n  {_follow_up(store, task, words)}" if follow_up else "")


def _follow_up(store: Store, task: Task, words: str) -> str:
    """The same brief with the note, from the commit that was rejected: what was good in it is not done twice."""
    from dispatcher import review

    text = review.follow_up_text(task, words)
    new = queue.NewTask(
        title=f"Follow-up of task {task.id}: {task.title}",
        brief_text=text,
        brief_path=task.brief_path,
        repository=task.repository,
        difficulty=task.difficulty,
        difficulty_reason=f"that of task {task.id}",
        expect=task.expect,
        priority=task.priority,
        batch=task.batch,
    )
    added = queue.add(store, new, time.time(), again=True, by=home.person())
    queue.add_note(store, task.id, time.time(), f"followed up by task {added.task.id}", home.person())
    return f"task {added.task.id} added: {clean(added.task.title)}"


# --- a second model -----------------------------------------------------------------------------------------------


def _ask(store: Store, task: Task, explicit: Path | None, reviewer: str) -> int:
    """Queue a report about the result and run it now; its text becomes findings when it rests, also in a later run."""
    from dispatcher import brief as briefs
    from dispatcher import review, scheduler
    from dispatcher.cli.running import say
    from dispatcher.config import logs_dir, require_trust
    from dispatcher.repository import delivery
    from dispatcher.task import Expect

    config = home.configured(explicit)
    require_trust(config.home)
    if reviewer not in config.roster.candidates:
        names = ", ".join(config.roster.candidates)
        raise NotFound(f"there is no candidate {reviewer!r}", hint=f"one of: {names}")
    target, commit = _result(task)
    body = briefs.parse(task.brief_text, file=f"task {task.id}").body
    stat = "\n".join(_stat_lines(delivery.diffstat(target, _base(task), commit).files))
    new = queue.NewTask(
        title=f"Review of task {task.id}: {task.title}",
        brief_text=review.brief_text(task, body, reviewer, stat, _diff(task)),
        repository=task.repository,
        difficulty=task.difficulty,
        difficulty_reason=f"that of task {task.id}",
        expect=Expect.REPORT,
        priority=review.PRIORITY,
        flags=(f"{review.FLAG}{task.id}",),
    )
    asked = queue.add(store, new, time.time(), again=True, by=home.person()).task
    note(f"task {asked.id}: {reviewer} reviews task {task.id}")
    summary = scheduler.run(config, store, logs_dir(config.home), scheduler.Options(task_id=asked.id, say=say))
    asked = queue.get(store, asked.id)
    if asked.status is not Status.ACCEPTED:
        note(f"no findings yet: task {asked.id} is {asked.status} ({clean(asked.status_reason)})")
    return summary.exit_code


# --- what is there ------------------------------------------------------------------------------------------------


def _result(task: Task) -> tuple[Path, str]:
    if task.repository is None or task.result_commit is None:
        raise BadInput(f"task {task.id} left no commit", hint=f"dispatcher show {task.id}")
    return Path(task.repository), task.result_commit


def _base(task: Task) -> str | None:
    found: str | None = json.loads(task.task_base)["base"] if task.task_base else None
    return found


def _diff(task: Task) -> str:
    from dispatcher.repository import delivery

    target, commit = _result(task)
    return delivery.diff(target, _base(task), commit)


def _stat_lines(files: Any) -> list[str]:
    return [f"{path}  binary" if added is None else f"{path}  +{added} -{deleted}" for path, added, deleted in files]


def _document(store: Store, task: Task) -> dict[str, Any]:
    """The shape of `review --json`."""
    attempts = history.attempts(store, task.id)
    checked = next((found for a in reversed(attempts) if (found := history.checks(store, a.id))), None)
    return {
        "task": task,
        "base": _base(task),
        "diff": _diffstat(task),
        "checks": list(checked.results) if checked else [],
        "outside_touch": list(checked.outside_touch) if checked else [],
        "checks_error": checked.error if checked else None,
        "cost": {
            "attempts": len(attempts),
            "seconds": sum(a.seconds or 0.0 for a in attempts),
            "input_tokens": _sum(a.usage.input for a in attempts),
            "output_tokens": _sum(a.usage.output for a in attempts),
            "list_price_usd": _sum(a.usage.cost_usd for a in attempts),
            "models": list(dict.fromkeys(a.observed_model or a.model for a in attempts)),
        },
        "last_words": task.final_text,
        "reviews": reviews.of(store, task.id),
    }


def _sum(values: Any) -> Any:
    """None only when nothing is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _diffstat(task: Task) -> dict[str, Any] | None:
    if task.repository is None or task.result_commit is None:
        return None
    from dispatcher.errors import RepositoryError
    from dispatcher.repository import delivery

    try:
        stat = delivery.diffstat(Path(task.repository), _base(task), task.result_commit)
    except RepositoryError as error:
        return {"error": error.message, "files": [], "insertions": None, "deletions": None}
    return {"files": list(stat.files), "insertions": stat.insertions, "deletions": stat.deletions}


def _print(store: Store, found: dict[str, Any]) -> None:
    task: Task = found["task"]
    out(f"task {task.id}: {clean(task.title)}")
    for name, value in _facts(task, found):
        if value:
            out(f"  {name:<10} {clean(value)}")
    _print_diff(found["diff"])
    for line in _check_lines(found):
        out(f"  {clean(line)}")
    if task.final_text:
        out("\nlast words of the worker")
        _indented(task.final_text)
    for row in found["reviews"]:
        out(f"\n{clean(_heading(row))}")
        _indented(row.text)
    if task.status is Status.NEEDS_REVIEW:
        note(f"next: dispatcher review {task.id} --diff, --accept [--into BRANCH], or --reject --note TEXT")


def _facts(task: Task, found: dict[str, Any]) -> list[tuple[str, str]]:
    cost = found["cost"]
    spent = [
        f"{plural(cost['attempts'], 'attempt')}",
        duration(cost["seconds"]),
        f"{tokens(cost['input_tokens'])} in" if cost["input_tokens"] is not None else "",
        f"{tokens(cost['output_tokens'])} out" if cost["output_tokens"] is not None else "",
        f"{money(cost['list_price_usd'])} list price" if cost["list_price_usd"] is not None else "",
        f"by {', '.join(cost['models'])}" if cost["models"] else "",
    ]
    return [
        ("status", f"{task.status}: {task.status_reason}"),
        ("repository", task.repository or ""),
        ("branch", task.branch or ""),
        ("delivered", delivered(task.result_commit, task.branch)),
        ("commit", "" if task.branch else task.result_commit or ""),
        ("flags", ", ".join(task.flags)),
        ("cost", ", ".join(filter(None, spent))),
    ]


def _print_diff(stat: dict[str, Any] | None) -> None:
    if stat is None:
        return
    if "error" in stat:
        return out(f"  {'diff':<10} {clean(stat['error'])}")
    files = stat["files"]
    out(f"\n{plural(len(files), 'file')} changed, +{stat['insertions']} -{stat['deletions']}")
    for line in _stat_lines(files[:40]):
        out(f"  {clean(line)}")
    if len(files) > 40:
        out(f"  and {len(files) - 40} more")
    return None


def _check_lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{check_word(check):<8} {check.command}{_mark(check)}" for check in found["checks"]]
    lines += [f"outside of `touch`: {path}" for path in found["outside_touch"]]
    if found["checks_error"]:
        lines.append(f"the checks could not be run: {found['checks_error']}")
    if lines:
        out("\nchecks")
    return lines


def check_word(check: CheckResult) -> str:
    return "passed" if check.passed else "failed" if not check.red_before else "red"


def _mark(check: CheckResult) -> str:
    marks = [
        "hidden" if check.hidden else "",
        "failed before the work too" if check.red_before else "",
        f"exit {check.exit_code}" if not check.passed else "",
        duration(check.seconds),
    ]
    return f"  ({', '.join(filter(None, marks))})"


def _heading(row: reviews.Review) -> str:
    word = "findings" if row.decision == "advice" else row.decision
    model = f" ({row.data['model']})" if row.data.get("model") else ""
    return f"{word} by {row.by}{model}, {clock(row.at)}"


def _indented(text: str) -> None:
    for line in clean_block(text).splitlines():
        out(f"  {line}")
