"""`log`: attempts, newest first. The keys of the rows are the stable columns of `--json` and `--csv`."""

from __future__ import annotations

from dispatcher.cli import home
from dispatcher.cli.render import Column, form, table
from dispatcher.cli.wording import clock, duration, money, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Any

    from dispatcher.store import Store
    from dispatcher.task import Attempt, Task

COLUMNS = [
    Column("task", "task", right=True),
    Column("attempt", "try", right=True),
    Column("started_at", "started", clock),
    Column("seconds", "took", duration, right=True),
    Column("candidate", "candidate"),
    Column("prompt", "prompt"),
    Column("outcome", "outcome"),
    Column("verdict", "verdict"),
    Column("status", "task is"),
    Column("tokens", "tokens", tokens, right=True),
    Column("list_price_usd", "price", money, right=True),
    Column("title", "title", wide=True),
]


def show_log(
    explicit: Path | None,
    *,
    limit: int,
    task_id: int | None,
    candidate: str | None,
    status: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    wanted = _status(status)
    with home.existing(explicit) as store:
        from dispatcher.store import history

        found = history.recent(store, limit=limit, task_id=task_id, candidate=candidate, status=wanted)
        rows = rows_of(store, found)
    table(rows, COLUMNS, form=form(as_json=as_json, as_csv=as_csv), empty="no attempt yet; start with: dispatcher run")


def rows_of(store: Store, attempts: Iterable[Attempt]) -> list[dict[str, Any]]:
    """Attempts with what their tasks are now, in the order given."""
    from dispatcher.store import queue

    tasks: dict[int, Task] = {}
    rows = []
    for attempt in attempts:
        task = tasks.setdefault(attempt.task_id, queue.get(store, attempt.task_id))
        rows.append(_row(attempt, task))
    return rows


def _row(attempt: Attempt, task: Task) -> dict[str, Any]:
    usage = attempt.usage
    kinds = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    return {
        "task": task.id,
        "attempt": attempt.number,
        "title": task.title,
        "status": str(task.status),
        "difficulty": str(task.difficulty),
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "seconds": attempt.seconds if attempt.seconds is not None else _lasted(attempt),
        "candidate": attempt.candidate,
        "harness": attempt.harness,
        "harness_version": attempt.harness_version,
        "model": attempt.model,
        "observed_model": attempt.observed_model,
        "model_evidence": str(attempt.model_evidence),
        "credential": attempt.credential,
        "billing": str(attempt.billing),
        "prompt": str(attempt.prompt),
        "outcome": None if attempt.outcome is None else str(attempt.outcome),
        "outcome_reason": attempt.outcome_reason,
        "verdict": attempt.verdict,
        "verdict_reason": attempt.verdict_reason,
        "exit_code": attempt.exit_code,
        "end_reason": attempt.end_reason,
        "tokens": None if all(kind is None for kind in kinds) else sum(kind or 0 for kind in kinds),
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "list_price_usd": usage.cost_usd,
        "result_commit": attempt.result_commit,
        "source": str(attempt.source),
        "folder": attempt.folder,
    }


def _lasted(attempt: Attempt) -> float | None:
    return None if attempt.ended_at is None else attempt.ended_at - attempt.started_at


def _status(name: str | None) -> Any:
    if name is None:
        return None
    from dispatcher.errors import BadInput
    from dispatcher.task import Status

    if name not in set(Status):
        raise BadInput(f"there is no status {name!r}", hint="one of " + ", ".join(Status))
    return Status(name)
