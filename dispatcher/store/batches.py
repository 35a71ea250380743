"""Batches: tasks that were queued together, and how that went.

A batch has ended when nothing of it is queued, running or waiting: what is left then is for people. Two runs may see
that at the same moment; the summary holds no clock, so the second one writes the same words and is told so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dispatcher.store.database import Store

_LEFT = "SELECT count(*) AS number FROM task WHERE batch = ? AND status IN ('queued', 'running', 'waiting')"
_STATUSES = "SELECT status, count(*) AS number FROM task WHERE batch = ? GROUP BY status ORDER BY status"
_CANDIDATES = """
SELECT a.candidate, count(*) AS attempts, coalesce(sum(a.outcome = 'completed'), 0) AS completed,
    coalesce(sum(a.outcome IN ('rate_limited', 'quota_exhausted')), 0) AS limited,
    round(sum(coalesce(a.seconds, 0)), 1) AS seconds,
    sum(coalesce(a.tokens_input, 0) + coalesce(a.tokens_output, 0)) AS tokens, round(sum(a.cost_usd), 4) AS cost_usd
FROM attempt a JOIN task t ON t.id = a.task_id WHERE t.batch = ? GROUP BY a.candidate ORDER BY a.candidate
"""
_TASKS = "SELECT id, title, status, status_reason AS reason, branch FROM task WHERE batch = ? ORDER BY id"
_END = "UPDATE batch SET ended_at = ?, data = ? WHERE name = ? AND (data IS NULL OR data <> ?)"


def named(store: Store, tasks: Iterable[int]) -> list[str]:
    """The batches that these tasks belong to."""
    marks = ",".join("?" * len(ids := tuple(tasks)))
    rows = store.read(
        f"SELECT DISTINCT batch FROM task WHERE id IN ({marks}) AND batch IS NOT NULL ORDER BY batch", ids
    )
    return [row["batch"] for row in rows]


def left(store: Store, name: str) -> int:
    """How many of its tasks a machine can still go on with."""
    row = store.first(_LEFT, (name,))
    return int(row["number"]) if row else 0


def summary(store: Store, name: str) -> dict[str, Any]:
    """How it stands: statuses, what each candidate did, every task in a line."""
    return {
        "batch": name,
        "left": left(store, name),
        "statuses": {row["status"]: row["number"] for row in store.read(_STATUSES, (name,))},
        "candidates": [dict(row) for row in store.read(_CANDIDATES, (name,))],
        "tasks": [dict(row) for row in store.read(_TASKS, (name,))],
    }


def end(store: Store, name: str, now: float, found: dict[str, Any]) -> bool:
    """Store the summary; False when it is there already, word for word."""
    text = json.dumps(found, sort_keys=True)
    with store.write() as transaction:
        return transaction.execute(_END, (now, text, name, text)).rowcount == 1
