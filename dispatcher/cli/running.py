"""`run`: the queue is worked on; what happens is said on stderr as it happens, how it ended on stdout."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dispatcher import scheduler
from dispatcher.cli import home
from dispatcher.cli.adding import add_new, source_of_run
from dispatcher.cli.render import clean, json_out, note, out
from dispatcher.cli.wording import clock, duration, until
from dispatcher.store import queue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.task import Attempt, Task

_WRONG_INPUT = 2


def run_queue(
    explicit: Path | None,
    *,
    jobs: int | None,
    task_id: int | None,
    max_tasks: int | None,
    add: Sequence[str],
    dry_run: bool,
    watch: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    from dispatcher.config import logs_dir, require_trust

    config = home.configured(explicit)
    require_trust(config.home)
    with home.opened(config.home) as store:
        all_read = _add(add, config, store)
        if task_id is not None:
            queue.get(store, task_id)  # a wrong number is an error, not an empty queue
        if dry_run:
            _plan(config, store, as_json=as_json)
            return 0 if all_read else _WRONG_INPUT
        options = scheduler.Options(
            jobs=jobs,
            task_id=task_id,
            max_tasks=max_tasks,
            watch=watch,
            source=source_of_run(),
            say=None if quiet else _say,
        )
        summary = scheduler.run(config, store, logs_dir(config.home), options)
    _report(summary, as_json=as_json)
    return summary.exit_code or (0 if all_read else _WRONG_INPUT)


def _add(names: Sequence[str], config: Config, store: Store) -> bool:
    return add_new(names, config, store) if names else True


def _say(task: Task, attempt: Attempt | None, text: str) -> None:
    who = f" [{clean(attempt.candidate)}]" if attempt is not None else ""
    note(f"{time.strftime('%H:%M:%S')} task {task.id}{who}: {clean(text)}")


def _report(summary: scheduler.Summary, *, as_json: bool) -> None:
    now = time.time()
    if as_json:
        json_out(
            {
                "exit_code": summary.exit_code,
                "moved": [_moved(task) for task in summary.moved],
                "waiting_until": summary.waiting_until,
                "note": summary.note,
            }
        )
    else:
        for task in summary.moved:
            out(f"task {task.id} {task.status}: {clean(task.title)}  ({clean(task.status_reason)})")
        if not summary.moved and summary.waiting_until is None:
            out("nothing to do")
    if summary.note:
        note(clean(summary.note))
    if summary.waiting_until is not None:
        left = duration(max(0.0, summary.waiting_until - now))
        note(f"work is left, but every model for it is on hold; next try {clock(summary.waiting_until)} (in {left})")


def _moved(task: Task) -> dict[str, Any]:
    return {"id": task.id, "title": task.title, "status": str(task.status), "reason": task.status_reason}


def _plan(config: Config, store: Store, *, as_json: bool) -> None:
    now = time.time()
    planned = scheduler.plan(config, store, now, os.environ)
    if as_json:
        return json_out([_planned(item) for item in planned])
    for item in planned:
        task, plan = item.task, item.plan
        out(f"task {task.id}: {clean(task.title)}  [{task.difficulty}: {clean(task.difficulty_reason)}]")
        for place, choice in enumerate(plan.choices):
            word = "would go to" if place == 0 else "then"
            out(f"  {word} {clean(choice.candidate.name)} ({clean(choice.reason)})")
        for skipped in plan.skipped:
            when = f", {until(skipped.until, now)}" if skipped.until is not None or skipped.needs_person else ""
            out(f"  not {clean(skipped.name)}: {clean(skipped.reason)}{when}")
        if not plan.choices:
            out(f"  starts nothing: {clean(plan.reason)}")
    if not planned:
        out("nothing is queued")
    return None


def _planned(item: scheduler.PlannedTask) -> dict[str, Any]:
    task, plan = item.task, item.plan
    return {
        "id": task.id,
        "title": task.title,
        "status": str(task.status),
        "difficulty": str(task.difficulty),
        "difficulty_reason": task.difficulty_reason,
        "reason": plan.reason,
        "earliest": plan.earliest,
        "choices": [{"candidate": choice.candidate.name, "reason": choice.reason} for choice in plan.choices],
        "skipped": [
            {"candidate": one.name, "reason": one.reason, "until": one.until, "needs_person": one.needs_person}
            for one in plan.skipped
        ],
    }
