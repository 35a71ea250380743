"""Holds: what may not be used until a time, or until a person lifts it. Rows are kept: they are the history."""

from __future__ import annotations

import math

from dispatcher.errors import NotFound
from dispatcher.store.database import Store, Transaction
from dispatcher.store.queue import BY
from dispatcher.store.rows import hold_of
from dispatcher.store.text import MAX_LINE, clean
from dispatcher.task import Candidate, Hold, HoldScope

SHORT = 3600.0  # a hold of at most this length is a guess about the near future, and a success disproves it

_ACTIVE = "SELECT * FROM hold WHERE lifted_at IS NULL AND (until IS NULL OR until > ?) ORDER BY id"
_REPLACE = """
UPDATE hold SET lifted_at = :now, lifted_by = 'replaced'
WHERE scope = :scope AND key = :key AND lifted_at IS NULL
  AND (:until IS NULL OR until IS NOT NULL AND until <= :until)
"""
# Tasks that wait may have a candidate again; the ones that have not go back to waiting without a worker.
_WAKE = (
    "UPDATE task SET not_before = :now, updated_at = :now "
    "WHERE status = 'waiting' AND (not_before IS NULL OR not_before > :now)"
)


def active(store: Store, now: float) -> list[Hold]:
    return [hold_of(row) for row in store.read(_ACTIVE, (now,))]


def add(
    store: Store,
    scope: HoldScope,
    key: str,
    until: float | None,
    reason: str,
    by: str,
    now: float,
    window: str | None = None,
) -> Hold:
    with store.write() as transaction:
        row = write(transaction, scope, key, until, reason, by, now, window)
        return hold_of(transaction.rows("SELECT * FROM hold WHERE id = ?", (row,))[0])


def write(
    transaction: Transaction,
    scope: HoldScope,
    key: str,
    until: float | None,
    reason: str,
    by: str,
    now: float,
    window: str | None = None,
    attempt_id: int | None = None,
) -> int:
    """The part of `add` that other transactions share. It replaces a hold of the same thing that ends earlier.

    A longer one stays beside it: a new "one minute" must not weaken "until a person".
    """
    name = clean(key, MAX_LINE)
    transaction.execute(_REPLACE, {"now": now, "scope": str(scope), "key": name, "until": until})
    values: dict[str, object] = {
        "scope": str(scope),
        "key": name,
        "until": until,
        "reason": clean(reason, MAX_LINE),
        "created_at": now,
        "actor": clean(by, 200),
        "window_name": window,
        "attempt_id": attempt_id,
    }
    row = transaction.insert("hold", values)
    transaction.journal("hold", {"id": row, **values})
    return row


def lift(store: Store, which: int | str, by: str, now: float) -> list[Hold]:
    """Lift the hold with this id, or every active one with this key; waiting tasks become claimable."""
    column = "id" if isinstance(which, int) else "key"
    with store.write() as transaction:
        rows = transaction.rows(
            f"SELECT * FROM hold WHERE {column} = ? AND lifted_at IS NULL AND (until IS NULL OR until > ?) ORDER BY id",
            (which, now),
        )
        if not rows:
            raise NotFound(f"there is no active hold {which}", hint="dispatcher holds lists them")
        for row in rows:
            _lift(transaction, row["id"], by, now)
        transaction.execute(_WAKE, {"now": now})
        return [hold_of(row) for row in rows]


def wake_untimed(store: Store, now: float) -> None:
    """Tasks that wait until a hold is lifted become claimable; who has a time waits on."""
    with store.write(durable=False) as transaction:
        transaction.execute(_WAKE + " AND not_before IS NULL", {"now": now})


def _lift(transaction: Transaction, hold: int, by: str, now: float) -> None:
    transaction.change("hold", hold, {"lifted_at": now, "lifted_by": clean(by, 200)})
    transaction.journal("lift", {"id": hold, "by": by})


def clear_short(store: Store, candidate: Candidate, now: float) -> int:
    """After a success: lift our own short holds of this candidate; returns how many.

    A hold until a named reset, and one that a person made, is not disproved by a run that began before it.
    """
    from dispatcher.routing import hold_key

    keys = {(str(scope), hold_key(scope, candidate)) for scope in HoldScope}
    found = [
        hold
        for hold in active(store, now)
        if (str(hold.scope), hold.key) in keys
        and hold.by == BY
        and hold.until is not None
        and hold.until - hold.created_at <= SHORT
    ]
    if found:
        with store.write() as transaction:
            for hold in found:
                _lift(transaction, hold.id, "success", now)
    return len(found)


def hits(store: Store, scope: HoldScope, key: str, since: float, *, before: float = math.inf) -> int:
    """How often a run put this thing on hold since then; repeated hits lengthen a guess.

    `before` is when the attempt that hits it now began: workers that met the same limit side by side are one hit.
    """
    row = store.first(
        "SELECT count(*) AS number FROM hold WHERE scope = ? AND key = ? AND created_at >= ? AND created_at <= ? "
        "AND actor = ?",
        (str(scope), clean(key, MAX_LINE), since, before, BY),
    )
    return 0 if row is None else int(row["number"])


def last_release(store: Store, scope: HoldScope, key: str) -> float:
    """When a person last lifted a hold of this thing; 0 when nobody did."""
    row = store.first(
        "SELECT max(lifted_at) AS at FROM hold WHERE scope = ? AND key = ? "
        "AND lifted_by NOT IN ('replaced', 'success')",
        (str(scope), clean(key, MAX_LINE)),
    )
    return 0.0 if row is None or row["at"] is None else float(row["at"])


def of_task(store: Store, task_id: int) -> dict[int, list[Hold]]:
    """What the attempts of a task asked to be held, by the attempt's id; lifted ones too."""
    found: dict[int, list[Hold]] = {}
    sql = "SELECT h.* FROM hold h JOIN attempt a ON a.id = h.attempt_id WHERE a.task_id = ? ORDER BY h.id"
    for row in store.read(sql, (task_id,)):
        found.setdefault(row["attempt_id"], []).append(hold_of(row))
    return found
