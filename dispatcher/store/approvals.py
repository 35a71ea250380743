"""Calls that waited for a person, their answers, and standing answers (grants). Rows are kept: they are the history.

An approval is *used* when its call was let through. That is decided by a file that the supervisor makes, not here: a
row only repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from dispatcher.errors import BadInput, NotFound
from dispatcher.record import record
from dispatcher.store import queue
from dispatcher.store.database import Store, Transaction
from dispatcher.store.text import MAX_LINE, clean
from dispatcher.task import Attempt, NextStep, PromptKind, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

NEVER = "never"  # in `remember` of a question: its rule wants to be asked every time


@record
class Approval:
    id: int
    task_id: int
    attempt_id: int
    asked_at: float
    harness: str
    session_id: str | None
    call_id: str | None
    tool: str
    input: str  # JSON, whole
    folder: str
    digest: str
    rule: str
    status: str
    answered_at: float | None
    answered_by: str | None
    answered_from: str | None
    answer_reason: str | None
    remember: str | None
    expires_at: float | None
    consumed_at: float | None
    transcript: str | None


@record
class Grant:
    id: int
    approval_id: int | None
    scope: str
    scope_key: str
    tool: str
    digest: str
    created_at: float
    by: str
    revoked_at: float | None
    revoked_by: str | None


# --- questions -----------------------------------------------------------------------------------------------------


def ask(store: Store, attempt: Attempt, asked: Mapping[str, Any], expire: float | None) -> Approval | None:
    """Write down a question as the supervisor recorded it; None when it is known already."""
    at = float(asked["at"])
    with store.write() as transaction:
        sql = "SELECT 1 FROM approval WHERE attempt_id = ? AND asked_at = ? AND digest = ?"
        if transaction.rows(sql, (attempt.id, at, asked["digest"])):
            return None
        values: dict[str, object] = {
            "task_id": attempt.task_id,
            "attempt_id": attempt.id,
            "asked_at": at,
            "harness": attempt.harness,
            "session_id": asked.get("session"),
            "call_id": asked.get("call"),
            "tool": clean(str(asked["tool"]), 200),
            "input": json.dumps(asked["input"], sort_keys=True),
            "folder": str(asked["folder"]),
            "digest": str(asked["digest"]),
            "rule": clean(str(asked["rule"]), 200),
            "status": "pending",
            "remember": None if asked.get("remember", True) else NEVER,
            "expires_at": None if expire is None else at + expire,
            "transcript": asked.get("transcript"),
        }
        number = transaction.insert("approval", values)
        transaction.journal("approval", {"id": number, **values})
        said = f"approval {number} is asked for: {asked.get('reason') or asked['tool']}"
        queue.write_event(transaction, attempt.task_id, at, "approval", said, attempt_id=attempt.id)
        return _one(transaction, number)


def answer(
    store: Store,
    number: int,
    now: float,
    *,
    approve: bool,
    by: str,
    where: str,
    reason: str = "",
    grant: tuple[str, str, str] | None = None,
    note: str = "",
    status: str = "",
) -> Approval:
    """A person's answer. It may be changed until the call was let through. `grant`: scope, its key, digest.

    A task that waited for nothing else can be claimed again, and its next worker is told `note`.
    """
    with store.write() as transaction:
        found = _one(transaction, number)
        if found.consumed_at is not None:
            raise BadInput(f"approval {number} was used: its call has run", hint="a new call asks anew")
        if found.status == "withdrawn":
            raise BadInput(f"approval {number} is not needed any more: its task has ended")
        values: dict[str, object] = {
            "status": status or ("approved" if approve else "denied"),
            "answered_at": now,
            "answered_by": clean(by, 200),
            "answered_from": clean(where, 200),
            "answer_reason": clean(reason),
            **({"remember": grant[0]} if grant is not None else {}),
        }
        transaction.change("approval", number, values)
        transaction.journal("answer", {"id": number, **values})
        waited = now - found.asked_at
        said = f"approval {number} {values['status']} by {by} ({where}) after {waited:.0f} s"
        queue.write_event(transaction, found.task_id, now, "approval", said + (f": {reason}" if reason else ""), by)
        if grant is not None:
            _grant(transaction, found, now, by, grant)
        release(store, transaction, found.task_id, now, f"approval {number} {values['status']} by {by}", note, by)
        return _one(transaction, number)


def release(
    store: Store, transaction: Transaction, task_id: int, now: float, reason: str, note: str = "", by: str = queue.BY
) -> bool:
    """Let a parked task go on when no question of it is open."""
    task = queue.get(store, task_id)
    if task.status is not Status.AWAITING_APPROVAL or _open(transaction, task_id):
        return False
    step = task.next
    told = NextStep(PromptKind.APPROVED, step.candidate, step.session_id, step.avoid, note or step.note)
    queue.apply(transaction, task, now, {"status": Status.QUEUED, "status_reason": reason, "next": told})
    queue.write_event(transaction, task_id, now, "status", reason, by)
    return True


def _open(transaction: Transaction, task_id: int) -> bool:
    return bool(transaction.rows("SELECT 1 FROM approval WHERE task_id = ? AND status = 'pending'", (task_id,)))


def consume(store: Store, number: int, at: float) -> None:
    """Repeat in the row what the supervisor's file says: the call was let through."""
    with store.write() as transaction:
        if transaction.change(
            "approval", number, {"consumed_at": at, "status": "consumed"}, " AND consumed_at IS NULL"
        ):
            transaction.journal("consumed", {"id": number, "consumed_at": at})
            found = _one(transaction, number)
            said = f"approval {number}: the call was let through"
            queue.write_event(transaction, found.task_id, at, "approval", said, attempt_id=found.attempt_id)


def withdraw_ended(store: Store) -> None:
    """Questions of tasks that have ended wait for nobody."""
    sql = (
        "SELECT p.id FROM approval p JOIN task t ON t.id = p.task_id WHERE p.status = 'pending' AND t.status IN "
        "('accepted', 'rejected', 'cancelled', 'expired', 'failed', 'needs_review')"
    )
    rows = store.read(sql)
    if rows:
        with store.write() as transaction:
            for row in rows:
                transaction.change("approval", row["id"], {"status": "withdrawn"}, " AND status = 'pending'")


# --- look ----------------------------------------------------------------------------------------------------------


def get(store: Store, number: int) -> Approval:
    row = store.first("SELECT * FROM approval WHERE id = ?", (number,))
    if row is None:
        raise NotFound(f"there is no approval {number}", hint="dispatcher approvals lists them")
    return _approval(row)


def pending(store: Store, task_id: int | None = None) -> list[Approval]:
    only, values = ("", ()) if task_id is None else (" AND task_id = ?", (task_id,))
    return [
        _approval(row)
        for row in store.read(f"SELECT * FROM approval WHERE status = 'pending'{only} ORDER BY id", values)
    ]


def past(store: Store, limit: int = 20) -> list[Approval]:
    sql = "SELECT * FROM approval WHERE status <> 'pending' ORDER BY id DESC LIMIT ?"
    return [_approval(row) for row in reversed(store.read(sql, (limit,)))]


def of_task(store: Store, task_id: int) -> list[Approval]:
    return [_approval(row) for row in store.read("SELECT * FROM approval WHERE task_id = ? ORDER BY id", (task_id,))]


def of_attempt(store: Store, attempt_id: int) -> list[Approval]:
    sql = "SELECT * FROM approval WHERE attempt_id = ? ORDER BY id"
    return [_approval(row) for row in store.read(sql, (attempt_id,))]


def approved_since(store: Store, since: float) -> int:
    sql = "SELECT count(*) AS n FROM approval WHERE answered_at >= ? AND status IN ('approved', 'consumed')"
    row = store.first(sql, (since,))
    return 0 if row is None else int(row["n"])


def _one(transaction: Transaction, number: int) -> Approval:
    rows = transaction.rows("SELECT * FROM approval WHERE id = ?", (number,))
    if not rows:
        raise NotFound(f"there is no approval {number}", hint="dispatcher approvals lists them")
    return _approval(rows[0])


def _approval(row: sqlite3.Row) -> Approval:
    return Approval(**{name: row[name] for name in Approval.__dataclass_fields__})


# --- grants --------------------------------------------------------------------------------------------------------


def _grant(transaction: Transaction, found: Approval, now: float, by: str, grant: tuple[str, str, str]) -> None:
    scope, key, digest = grant
    values: dict[str, object] = {
        "approval_id": found.id,
        "scope": scope,
        "scope_key": clean(key, MAX_LINE),
        "tool": found.tool,
        "digest": digest,
        "created_at": now,
        "actor": clean(by, 200),
    }
    number = transaction.insert("approval_grant", values)
    transaction.journal("grant", {"id": number, **values})


def grants(store: Store, scopes: Sequence[tuple[str, str]] | None = None) -> list[Grant]:
    """Grants that hold; of these scopes (scope, key) only, None: all."""
    rows = store.read("SELECT * FROM approval_grant WHERE revoked_at IS NULL ORDER BY id")
    return [_grant_of(row) for row in rows if scopes is None or (row["scope"], row["scope_key"]) in scopes]


def revoke(store: Store, number: int, by: str, now: float) -> Grant:
    with store.write() as transaction:
        rows = transaction.rows("SELECT * FROM approval_grant WHERE id = ? AND revoked_at IS NULL", (number,))
        if not rows:
            raise NotFound(f"there is no grant {number} that holds", hint="dispatcher approvals grants lists them")
        transaction.change("approval_grant", number, {"revoked_at": now, "revoked_by": clean(by, 200)})
        transaction.journal("revoke", {"id": number, "by": by})
        return _grant_of(rows[0])


def _grant_of(row: sqlite3.Row) -> Grant:
    names = [name for name in Grant.__dataclass_fields__ if name != "by"]
    return Grant(**{name: row[name] for name in names}, by=row["actor"])
