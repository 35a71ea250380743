"""`run`: the queue is worked on; what happens is said on stderr as it happens, how it ended on stdout."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dispatcher import scheduler
from dispatcher.cli import home, idle
from dispatcher.cli.render import clean, json_out, note, out
from dispatcher.cli.wording import busy, clock, delivered, duration, money, tokens, until
from dispatcher.errors import BadInput
from dispatcher.store import glance, queue
from dispatcher.task import ALARMS
from dispatcher.words import of, plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dispatcher.config import Config
    from dispatcher.runner.foresight import PlannedTask
    from dispatcher.store import Store
    from dispatcher.task import Attempt, Task

_WRONG_INPUT = 2
_RESTS = ("needs_review", "needs_human", "accepted", "cancelled")


def run_queue(
    explicit: Path | None,
    *,
    jobs: int | None,
    task_id: int | None,
    max_tasks: int | None,
    add: Sequence[str],
    batch: str | None,
    until_clock: str | None,
    max_minutes: int | None,
    notify: str | None,
    dry_run: bool,
    watch: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    from dispatcher.config import logs_dir, require_trust

    if not add:
        idle.refuse("without --add", {"--batch": batch is not None}, "it names the batch that --add makes")
    config = home.configured(explicit)
    require_trust(config.home)
    end = deadline(time.time(), until_clock, max_minutes)
    with home.opened(config.home) as store:
        all_read = _add(add, config, store, batch)
        if task_id is not None:
            queue.get(store, task_id)  # a wrong number is an error, not an empty queue
        if dry_run:
            _plan(config, store, logs_dir(config.home), task_id, as_json=as_json)
            return 0 if all_read else _WRONG_INPUT
        options = scheduler.Options(
            jobs=jobs,
            task_id=task_id,
            max_tasks=max_tasks,
            watch=watch,
            source=home.source(),
            say=None if quiet else say,
            until=end,
            notify=("/bin/sh", "-c", notify) if notify else None,
            tell=_tell,
        )
        summary = scheduler.run(config, store, logs_dir(config.home), options)
        behind = glance.left_behind(store, task_id)
    _report(summary, behind, as_json=as_json)
    return summary.exit_code or (0 if all_read else _WRONG_INPUT)


def _add(names: Sequence[str], config: Config, store: Store, batch: str | None) -> bool:
    """Reading briefs is imported only when there are some to read."""
    if not names:
        return True
    from dispatcher.cli.adding import add_new

    return add_new(names, config, store, batch)


def deadline(now: float, until_clock: str | None, max_minutes: int | None) -> float | None:
    """When nothing more is started: the next time the clock shows `until_clock`, or so many minutes from now."""
    ends = [] if max_minutes is None else [now + 60 * max_minutes]
    if until_clock is not None:
        try:
            wanted = time.strptime(until_clock, "%H:%M")
        except ValueError:
            raise BadInput(f"{until_clock!r} is no time of day", hint="write it like 06:00") from None
        today = time.localtime(now)
        for day in (0, 1):
            parts = (today.tm_year, today.tm_mon, today.tm_mday + day, wanted.tm_hour, wanted.tm_min, 0, 0, 0, -1)
            if (moment := time.mktime(parts)) > now:
                ends.append(moment)
                break
    return min(ends, default=None)


def _tell(text: str) -> None:
    note(f"{time.strftime('%H:%M:%S')} {clean(text)}")


def say(task: Task, attempt: Attempt | None, text: str) -> None:
    who = f" [{clean(attempt.candidate)}]" if attempt is not None else ""
    note(f"{time.strftime('%H:%M:%S')} task {task.id}{who}: {clean(text)}")


def _report(summary: scheduler.Summary, behind: list[dict[str, Any]], *, as_json: bool) -> None:
    now = time.time()
    if as_json:
        json_out(
            {
                "exit_code": summary.exit_code,
                "moved": [_moved(task) for task in summary.moved],
                "waiting_until": summary.waiting_until,
                "held": summary.held,
                "note": summary.note,
                "batches": summary.batches,
                "left_behind": behind,
            }
        )
    else:
        for task in summary.moved:
            where = delivered((task.result_commit or "")[:10], task.branch) if task.status in _RESTS else ""
            ends = f"  delivered {clean(where)}" if where else ""
            out(f"task {task.id} {task.status}: {clean(task.title)}  ({clean(task.status_reason)}){ends}")
        if not summary.moved and summary.waiting_until is None and not summary.held and not summary.note:
            out("nothing to do")
        for batch in summary.batches:
            _batch(batch)
        for group in behind:
            out(group["reason"])
    if summary.note:
        note(clean(summary.note))
    if summary.waiting_until is not None:
        left = duration(max(0.0, summary.waiting_until - now))
        note(f"work is left, but every model for it is on hold; next try {clock(summary.waiting_until)} (in {left})")
    if summary.held:
        wait = plural(summary.held, "task waits", "tasks wait")
        note(f"{wait} until you lift a hold: dispatcher holds says which, and why")


def _batch(found: dict[str, Any]) -> None:
    """How a batch stands: one line, one line for each model, and what waits for a person."""
    counts = ", ".join(f"{number} {status}" for status, number in found["statuses"].items())
    state = "ended" if found["left"] == 0 else f"{found['left']} left"
    out(f"batch {clean(found['batch'])} {state}: {counts}")
    for row in found["candidates"]:
        spent = f", {money(row['cost_usd'])} list price" if row["cost_usd"] else ""
        limited = f", {row['limited']} rate limited" if row["limited"] else ""
        out(
            f"  {clean(row['candidate'])}: {of(row['completed'], row['attempts'], 'attempt')} completed{limited}, "
            f"{duration(row['seconds'])} of work, {tokens(row['tokens'])} tokens{spent}"
        )
    for task in found["tasks"]:
        if task["status"] in ALARMS:
            out(f"  needs a person: task {task['id']} {clean(task['title'])}  ({clean(task['reason'])})")


def _moved(task: Task) -> dict[str, Any]:
    return {"id": task.id, "title": task.title, "status": str(task.status), "reason": task.status_reason}


def _plan(config: Config, store: Store, logs: Path, task_id: int | None, *, as_json: bool) -> None:
    from dispatcher import host
    from dispatcher.cli.ready import waits_for
    from dispatcher.runner import foresight

    now = time.time()
    planned = foresight.plan(config, store, logs, now, os.environ, task_id)
    against = host.admission(config.limits, scheduler.writing(config, logs))
    if against and planned:
        note(busy(clean(against)))
    if as_json:
        return json_out([_planned(item) for item in planned])
    for item in planned:
        task, plan = item.task, item.plan
        out(f"task {task.id}: {clean(task.title)}  [{task.difficulty}: {clean(task.difficulty_reason)}]")
        for refusal in item.refusals:
            out(f"  {'' if refusal.stops else 'not '}{clean(refusal.candidate)}: {clean(refusal.reason)}")
        if item.refusals and not item.choices:
            out("  starts nothing: it would need a person")
        for place, choice in enumerate(item.choices):
            word = "would go to" if place == 0 else "then"
            out(f"  {word} {clean(choice.candidate.name)} ({clean(choice.reason)})")
        for skipped in plan.skipped:
            when = f", {until(skipped.until, now)}" if skipped.held or skipped.until is not None else ""
            out(f"  not {clean(skipped.name)}: {clean(skipped.reason)}{when}")
        if not plan.choices:
            out(f"  starts nothing: {clean(plan.reason)}")
        for reason in waits_for(store, task.id):
            out(f"  not yet: {clean(reason)}")
    if not planned:
        out("nothing is queued")
    return None


def _planned(item: PlannedTask) -> dict[str, Any]:
    task, plan = item.task, item.plan
    return {
        "id": task.id,
        "title": task.title,
        "status": str(task.status),
        "difficulty": str(task.difficulty),
        "difficulty_reason": task.difficulty_reason,
        "reason": plan.reason,
        "earliest": plan.earliest,
        "refusals": [
            {"candidate": one.candidate, "reason": one.reason, "needs_person": one.stops} for one in item.refusals
        ],
        "choices": [{"candidate": choice.candidate.name, "reason": choice.reason} for choice in plan.choices],
        "skipped": [
            {"candidate": one.name, "reason": one.reason, "until": one.until, "needs_person": one.needs_person}
            for one in plan.skipped
        ],
    }
