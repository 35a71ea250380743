"""Attempts: the row before the process exists, its end in one transaction, and what budgets and holds ask of them.

`end_attempt` writes the attempt, its task, the event and the holds together, `WHERE ended_at IS NULL`: when a second
runner settles the same attempt after a crash, one of them wins and the other changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dispatcher.errors import InternalError, NotFound, Refused
from dispatcher.store import holds as hold_rows
from dispatcher.store import queue
from dispatcher.store.database import Store, Transaction
from dispatcher.store.glance import LAST_SUCCESS, SUCCESS
from dispatcher.store.rows import attempt_of, check_of, columns, counters_of, dump, task_of
from dispatcher.store.text import clean
from dispatcher.task import Attempt, CheckResult, Checks, HoldScope, OutcomeClass, Status, Task, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dispatcher import quota
    from dispatcher.quota import Spend

    AskedHold = tuple[HoldScope, str, float | None, str, str | None]  # scope, key, until, reason, window

_FIELDS = Attempt.__dataclass_fields__
_LATER = {name: None for name in _FIELDS if name not in ("id", "task_id", "number")}
_STANDING = frozenset({"status", "status_reason", "not_before", "owner"})
_DEFAULTS: dict[str, object] = {
    "usage": Usage(),
    **{
        name: field.default
        for name, field in _FIELDS.items()
        if name
        in (
            "outcome_reason",
            "proof",
            "verdict_reason",
            "counted",
            "timed_out",
            "model_evidence",
            "final_text",
            "notes",
            "host",
            "source",
        )
    },
}


# --- write ---------------------------------------------------------------------------------------------------------


def begin_attempt(store: Store, *, owner: str | None = None, **fields: object) -> Attempt:
    """Open the row of an attempt; `fields` are those of Attempt without id and number. Counts it in `counters.starts`.

    `{number}` in `folder` becomes the attempt's number. With `owner`: Refused when the task is not running under it.
    """
    task_id, now = _int(fields["task_id"]), _float(fields["started_at"])
    with store.write() as transaction:
        rows = transaction.rows("SELECT status, owner, counters FROM task WHERE id = ?", (task_id,))
        if not rows:
            raise NotFound(f"there is no task {task_id}")
        if owner is not None and (rows[0]["owner"] != owner or rows[0]["status"] != Status.RUNNING):
            raise Refused(f"task {task_id} does not belong to this run any more: it is {rows[0]['status']}")
        number = _next_number(transaction, task_id)
        folder = str(fields["folder"]).replace("{number}", str(number))
        values = columns({**_DEFAULTS, **fields, "folder": folder, "number": number}, _FIELDS)
        attempt_id = transaction.insert("attempt", values)
        transaction.journal("attempt", {"id": attempt_id, **values})
        counted = counters_of(rows[0]["counters"])
        counters = replace(counted, starts=counted.starts + 1)
        transaction.change("task", task_id, {**columns({"counters": counters}, {"counters": None}), "updated_at": now})
        said = f"attempt {number} starts: {fields['prompt']} prompt to {fields['candidate']}"
        queue.write_event(transaction, task_id, now, "attempt_started", said, attempt_id=attempt_id)
        return _get(transaction, attempt_id)


def _next_number(transaction: Transaction, task_id: int) -> int:
    row = transaction.rows("SELECT coalesce(max(number), 0) + 1 AS next FROM attempt WHERE task_id = ?", (task_id,))[0]
    return int(row["next"])


def update_attempt(store: Store, attempt_id: int, **fields: object) -> None:
    """Facts that become known while it runs. Not forced to the disk: the attempt folder has them too."""
    with store.write(durable=False) as transaction:
        if not transaction.change("attempt", attempt_id, columns(fields, _LATER)):
            raise NotFound(f"there is no attempt {attempt_id}")


def end_attempt(
    store: Store,
    attempt_id: int,
    now: float,
    *,
    attempt_fields: Mapping[str, object],
    task_fields: Mapping[str, object],
    event: str,
    holds: Sequence[AskedHold] = (),
    owner: str | None = None,
    again: bool = False,
) -> bool:
    """Settle an attempt. False, and nothing is written, when somebody else already did.

    `again` settles one that has an end already, but whose task still stands at its settlement (`NextStep.settle`).

    What a person did to the task meanwhile stays: when it does not run any more (or, with `owner`, belongs to another
    run), its status is left alone, and the rest (next step, counters, result) is written all the same.
    """
    values = columns(dict(attempt_fields) if again else {"ended_at": now, **attempt_fields}, _LATER)
    unsettled = _STANDS_AT_IT if again else " AND ended_at IS NULL"
    with store.write() as transaction:
        if not transaction.change("attempt", attempt_id, values, unsettled):
            return False
        transaction.journal(
            "ended", {"id": attempt_id, **{name: values[name] for name in values if name != "final_text"}}
        )
        attempt = _get(transaction, attempt_id)
        task = task_of(transaction.rows("SELECT * FROM task WHERE id = ?", (attempt.task_id,))[0])
        queue.apply(transaction, task, now, _still_ours(task, task_fields, owner))
        queue.write_event(transaction, task.id, now, "attempt_ended", event, attempt_id=attempt_id)
        for scope, key, until, reason, window in holds:
            hold_rows.write(transaction, scope, key, until, reason, queue.BY, now, window, attempt_id)
    return True


_STANDS_AT_IT = (
    " AND id = (SELECT json_extract(t.next_step, '$.settle') FROM task t WHERE t.id = attempt.task_id)"
    " AND ended_at IS NOT NULL"
)


def _still_ours(task: Task, fields: Mapping[str, object], owner: str | None) -> dict[str, object]:
    if task.runs_under(owner):
        return dict(fields)
    return {name: value for name, value in fields.items() if name not in _STANDING}


def save_checks(store: Store, attempt_id: int, results: Checks | Iterable[CheckResult]) -> None:
    """Store what the checks of an attempt gave; a second run of them replaces the first."""
    checks = results if isinstance(results, Checks) else Checks(configured=True, results=tuple(results))
    summary = {"configured": checks.configured, "outside_touch": checks.outside_touch, "error": checks.error}
    with store.write() as transaction:
        transaction.execute("DELETE FROM check_result WHERE attempt_id = ?", (attempt_id,))
        rows = [_check_columns(attempt_id, position, result) for position, result in enumerate(checks.results)]
        for row in rows:
            transaction.insert("check_result", row)
        transaction.journal("checks", {"id": attempt_id, "checks": dump(summary), "results": rows})
        transaction.change("attempt", attempt_id, {"checks": dump(summary)})


def _check_columns(attempt_id: int, position: int, result: CheckResult) -> dict[str, object]:
    return {
        "attempt_id": attempt_id,
        "position": position,
        "command": clean(result.command),
        "hidden": int(result.hidden),
        "passed": int(result.passed),
        "exit_code": result.exit_code,
        "seconds": result.seconds,
        "output": clean(result.output),
        "red_before": int(result.red_before),
    }


# --- look ----------------------------------------------------------------------------------------------------------


def _get(transaction: Transaction, attempt_id: int) -> Attempt:
    return attempt_of(transaction.rows("SELECT * FROM attempt WHERE id = ?", (attempt_id,))[0])


def get_attempt(store: Store, attempt_id: int) -> Attempt:
    row = store.first("SELECT * FROM attempt WHERE id = ?", (attempt_id,))
    if row is None:
        raise NotFound(f"there is no attempt {attempt_id}")
    return attempt_of(row)


def attempts(store: Store, task_id: int) -> list[Attempt]:
    """All attempts of a task, first to last."""
    return [
        attempt_of(row) for row in store.read("SELECT * FROM attempt WHERE task_id = ? ORDER BY number", (task_id,))
    ]


def open_attempts(store: Store, task_id: int | None = None) -> list[Attempt]:
    """Attempts that have no end yet: they run, or a crash left them."""
    only, values = ("", ()) if task_id is None else (" AND task_id = ?", (task_id,))
    # The index is named because the planner would rather read a million rows than sort three.
    sql = f"SELECT * FROM attempt INDEXED BY attempt_open WHERE ended_at IS NULL{only} ORDER BY id"
    return [attempt_of(row) for row in store.read(sql, values)]


def checks_of(store: Store, attempt_id: int) -> tuple[CheckResult, ...]:
    rows = store.read("SELECT * FROM check_result WHERE attempt_id = ? ORDER BY position", (attempt_id,))
    return tuple(check_of(row) for row in rows)


def checks(store: Store, attempt_id: int) -> Checks | None:
    """The checks of an attempt with what was wrong beside the commands; None when they were not run."""
    row = store.first("SELECT checks FROM attempt WHERE id = ?", (attempt_id,))
    if row is None or row["checks"] is None:
        return None
    summary = json.loads(row["checks"])
    return Checks(
        configured=summary["configured"],
        results=checks_of(store, attempt_id),
        outside_touch=tuple(summary["outside_touch"]),
        error=summary["error"],
    )


def failures_in_a_row(store: Store, candidate: str, limit: int, since: float = 0.0) -> int:
    """Attempts that counted against a candidate, back to its newest success; at most `limit` are looked at.

    Quota events, a dead network and the like are neither: they break no row. `since` forgets what ended before.
    """
    rows = store.read(
        f"SELECT counted FROM attempt WHERE candidate = ? AND (counted = 1 OR {SUCCESS}) AND ended_at > ? "
        "ORDER BY started_at DESC LIMIT ?",
        (candidate, since, limit),
    )
    return next((number for number, row in enumerate(rows) if not row["counted"]), len(rows))


def last_of_another_task(
    store: Store, candidate: str, task_id: int, since: float = 0.0
) -> tuple[OutcomeClass, str] | None:
    """How the newest ended attempt of a candidate for any other task ended, and its proof; `since` forgets the rest."""
    row = store.first(
        "SELECT outcome, proof FROM attempt WHERE candidate = ? AND task_id <> ? AND outcome IS NOT NULL "
        "AND ended_at > ? ORDER BY started_at DESC LIMIT 1",
        (candidate, task_id, since),
    )
    return None if row is None else (OutcomeClass(row["outcome"]), row["proof"] or "")


def last_ends(store: Store, candidates: Iterable[str]) -> dict[str, tuple[OutcomeClass, float]]:
    """How the newest ended attempt of each candidate ended, and when."""
    found = {}
    for name in candidates:
        row = store.first(
            "SELECT outcome, ended_at FROM attempt WHERE candidate = ? AND outcome IS NOT NULL "
            "ORDER BY started_at DESC LIMIT 1",
            (name,),
        )
        if row is not None:
            found[name] = OutcomeClass(row["outcome"]), row["ended_at"]
    return found


def last_success(store: Store) -> dict[str, float]:
    """Per candidate, when its newest attempt that ended well did so."""
    return {row["candidate"]: row["at"] for row in store.read(LAST_SUCCESS) if row["at"] is not None}


# --- spend ---------------------------------------------------------------------------------------------------------

_TODAY = "SELECT candidate, count(*) AS number FROM attempt WHERE started_at >= ? GROUP BY candidate"
_SPENT = """
SELECT sum(cost_usd) AS usd, count(*) AS attempts, coalesce(sum(seconds), 0) / 60.0 AS minutes,
    min(started_at) AS since,
    coalesce(sum(coalesce(tokens_input, 0) + coalesce(tokens_output, 0) + coalesce(tokens_cache_read, 0)
        + coalesce(tokens_cache_write, 0) + coalesce(tokens_reasoning, 0)), 0) AS tokens
FROM attempt WHERE credential = ? AND started_at >= ?
"""
_SPENT_BY_TASK = _SPENT.replace("credential = ? AND started_at >= ?", "task_id = ?")
_PAID = """
SELECT sum(billed_usd) AS billed, sum(ended_at IS NOT NULL AND cost_usd IS NULL) AS unpriced
FROM attempt WHERE credential = ? AND started_at >= ?
"""


def spend(store: Store, now: float) -> Spend:
    """What was used in the windows that `quota` knows. Imported history counts too: it was the same quota."""
    from dispatcher import quota

    starts = {
        window: now - quota.ROLLING if window == "window" else quota.bounds(window, now)[0] for window in quota.WINDOWS
    }
    today = {row["candidate"]: row["number"] for row in store.read(_TODAY, (starts["day"],))}
    return quota.Spend(
        per_candidate_today=today,
        per_credential={
            name: {window: _totals(store.read(_SPENT, (name, since))[0]) for window, since in starts.items()}
            for name in _credentials(store)
        },
    )


def task_spend(store: Store, task_id: int) -> quota.Totals:
    """What all attempts of a task have used."""
    return _totals(store.read(_SPENT_BY_TASK, (task_id,))[0])


def paid(store: Store, credential: str, since: float) -> tuple[float | None, int]:
    """Money really paid with a credential (None: unknown), and how many of its ended attempts have no price."""
    row = store.read(_PAID, (credential, since))[0]
    return row["billed"], row["unpriced"] or 0


def _totals(row: sqlite3.Row) -> quota.Totals:
    from dispatcher import quota

    return quota.Totals(
        usd=row["usd"], tokens=row["tokens"], attempts=row["attempts"], minutes=row["minutes"], since=row["since"]
    )


_CREDENTIALS = """
WITH RECURSIVE name (it) AS (
    SELECT min(credential) FROM attempt
    UNION ALL SELECT (SELECT min(credential) FROM attempt WHERE credential > it) FROM name WHERE it IS NOT NULL
)
SELECT it FROM name WHERE it IS NOT NULL
"""


def _credentials(store: Store) -> list[str]:
    """All credentials ever used: hops through the index instead of reading a million rows."""
    return [row["it"] for row in store.read(_CREDENTIALS)]


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise InternalError(f"{value!r} is no whole number")
    return value


def _float(value: object) -> float:
    if not isinstance(value, int | float):
        raise InternalError(f"{value!r} is no number")
    return float(value)
