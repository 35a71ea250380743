"""What `status`, `log` and TAB completion print: plain rows, straight from SQL.

The vocabulary's two dozen frozen dataclasses cost twice a bare start of Python to make, and a listing needs none of
their promises. Whatever decides something uses `queue`, `history` and `holds` instead.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dispatcher.store.database import Store

Row = dict[str, "Any"]

_RUNNING = """
SELECT t.id, t.title, t.owner, a.candidate, a.prompt, coalesce(a.started_at, t.updated_at) AS since
FROM task t LEFT JOIN attempt a ON a.task_id = t.id AND a.ended_at IS NULL
WHERE t.status = 'running' ORDER BY t.id
"""
_PERSON = """
SELECT id, status, title, status_reason AS reason FROM task
WHERE status IN ('needs_human', 'awaiting_approval', 'failed') ORDER BY id
"""
_STUCK = """
SELECT t.id, t.status, t.title, n.id AS needs, n.status AS needs_status FROM task t
JOIN dependency d ON d.task_id = t.id JOIN task n ON n.id = d.needs_task_id
WHERE t.status IN ('queued', 'waiting') AND n.status IN ('rejected', 'cancelled', 'expired', 'failed')
ORDER BY t.id, n.id
"""
_REVIEW = "SELECT id, title, branch FROM task WHERE status = 'needs_review' ORDER BY id LIMIT 21"
_TASKS = "SELECT id, status, title, status_reason AS reason FROM task ORDER BY id"
_HOLDS = """
SELECT id, scope, key, until, reason, actor AS "by" FROM hold
WHERE lifted_at IS NULL AND (until IS NULL OR until > ?) ORDER BY id
"""
_NEXT_WAKE = """
SELECT min(not_before) AS at FROM task WHERE status IN ('queued', 'waiting') AND not_before IS NOT NULL
"""
_HELD = "SELECT count(*) AS number FROM task WHERE status = 'waiting' AND not_before IS NULL"
_ATTEMPTS = """
SELECT task_id AS task, number AS attempt, title, task_status AS status, difficulty, started_at, ended_at,
    coalesce(seconds, ended_at - started_at) AS seconds, candidate, harness, harness_version, model, observed_model,
    model_evidence, credential, billing, prompt, outcome, outcome_reason, verdict, verdict_reason, exit_code,
    end_reason, tokens_input AS input_tokens, tokens_output AS output_tokens, tokens_cache_read AS cache_read_tokens,
    tokens_cache_write AS cache_write_tokens, cost_usd AS list_price_usd, billed_usd, result_commit,
    source, folder
FROM v_attempts WHERE {conditions} ORDER BY id DESC LIMIT ?
"""
SUCCESS = "outcome = 'completed' AND counted = 0"  # what said "done" and left nothing counts against its candidate
# A walk from name to name over the index of candidates, so that a million attempts are not read.
LAST_SUCCESS = f"""
WITH RECURSIVE name (candidate) AS (
    SELECT min(candidate) FROM attempt
    UNION ALL SELECT (SELECT min(a.candidate) FROM attempt a WHERE a.candidate > name.candidate) FROM name
    WHERE name.candidate IS NOT NULL
)
SELECT candidate, (
    SELECT ended_at FROM attempt WHERE candidate = name.candidate AND {SUCCESS} ORDER BY started_at DESC LIMIT 1
) AS at FROM name WHERE candidate IS NOT NULL
"""
_NAMED = 5  # tasks in one sentence
_FILTERS = {"task": "task_id = ?", "candidate": "candidate = ?", "status": "task_status = ?"}


def status(store: Store, now: float) -> Row:
    """Counts by status, what runs, what needs a person, what is on hold, when a waiting task is tried again, how many
    wait until a person lifts a hold."""
    wake, held = store.first(_NEXT_WAKE), store.first(_HELD)
    return {
        "counts": {row["status"]: row["number"] for row in store.read("SELECT * FROM task_count WHERE number > 0")},
        "running": _running(store),
        "review": _rows(store, _REVIEW),
        "person": [*_rows(store, _PERSON), *stuck(store)],
        "holds": _rows(store, _HOLDS, (now,)),
        "next_wake": None if wake is None else wake["at"],
        "held": 0 if held is None else held["number"],  # tasks that no time will free
        "last_success": _rows(store, LAST_SUCCESS),
        "last_run": _last_run(store),
        "schedule": store.get_meta("cron_schedule") or None,
    }


def stuck(store: Store) -> list[Row]:
    """Tasks that come after one that was given up: without a person they wait for ever."""
    rows = _rows(store, _STUCK)
    for row in rows:
        row["reason"] = f"waits {_for(row['needs'], row['needs_status'], [row['id']])}"
        del row["needs"], row["needs_status"]
    return rows


def left_behind(store: Store, task_id: int | None = None) -> list[Row]:
    """The same tasks (or one of them), one row for each that they come after: a run has no room for a line each."""
    found: dict[int, Row] = {}
    for row in _rows(store, _STUCK):
        if task_id in (None, row["id"]):
            group = found.setdefault(row["needs"], {"needs": row["needs"], "status": row["needs_status"], "tasks": []})
            group["tasks"].append(row["id"])
    for group in found.values():
        tasks = group["tasks"]
        words = _for(group["needs"], group["status"], tasks)
        group["reason"] = f"{_named(tasks)} {'waits' if len(tasks) == 1 else 'wait'} {words}"
    return list(found.values())


def _for(needs: int, status: str, tasks: Sequence[int]) -> str:
    give_up = " ".join(map(str, tasks)) if len(tasks) <= _NAMED else "them"
    return f"for task {needs}, which is {status}: dispatcher retry {needs}, or cancel {give_up}"


def _named(tasks: Sequence[int]) -> str:
    if len(tasks) == 1:
        return f"task {tasks[0]}"
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return f"tasks {', '.join(map(str, tasks[:_NAMED]))}{more}"


def _running(store: Store) -> list[Row]:
    """`gone`: the run that claimed it lives no more, so nothing goes on before the next one."""
    rows = _rows(store, _RUNNING)
    if rows:
        import os
        from pathlib import Path

        from dispatcher.store import locks

        logs = Path(os.path.dirname(store.path))
        for row in rows:
            row["gone"] = not locks.owner_alive(logs, row.pop("owner") or "")
    return rows


def tasks(store: Store) -> list[Row]:
    """All tasks, by number."""
    return _rows(store, _TASKS)


def _last_run(store: Store) -> Row | None:
    """When `run` was started last, and from where."""
    at, _, source = (store.get_meta("last_run") or "").partition(" ")
    return {"at": float(at), "source": source} if source else None


def attempts(store: Store, *, limit: int = -1, **filters: object) -> list[Row]:
    """The newest attempts, newest first; -1 is all. Filters: task, candidate, status; None does not filter."""
    given = {name: value for name, value in filters.items() if value is not None}
    conditions = " AND ".join(_FILTERS[name] for name in given) or "1"
    return _rows(store, _ATTEMPTS.format(conditions=conditions), (*given.values(), limit))


def task_names(store: Store, limit: int = 200) -> list[Row]:
    """Number, status and title of the newest tasks."""
    return _rows(store, "SELECT id, status, title FROM task ORDER BY id DESC LIMIT ?", (limit,))


def _rows(store: Store, sql: str, values: Sequence[object] = ()) -> list[Row]:
    return [dict(row) for row in store.read(sql, values)]
