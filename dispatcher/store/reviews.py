"""Judgements of finished tasks: by a person, by a second model, by the checks. Rows are kept: they are the history."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dispatcher.record import record
from dispatcher.store import queue
from dispatcher.store.database import Store
from dispatcher.store.rows import dump
from dispatcher.store.text import clean
from dispatcher.task import Status, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, Literal

    Decision = Literal["accepted", "rejected", "advice"]
    Kind = Literal["person", "model", "checks"]

_EVENTS = {"accepted": "accepted by {by}", "rejected": "rejected by {by}", "advice": "findings of {by}"}


@record
class Review:
    id: int
    task_id: int
    attempt_id: int | None
    at: float
    decision: Decision
    kind: Kind
    by: str  # the account of the person, or the candidate that reviewed
    text: str
    result_commit: str | None
    data: Mapping[str, Any]


def write(
    store: Store,
    task: Task,
    now: float,
    decision: Decision,
    *,
    kind: Kind,
    by: str,
    text: str = "",
    data: Mapping[str, object] | None = None,
) -> None:
    """Add a judgement of the result as it stands now, with its event. The status of the task is not looked at."""
    with store.write() as transaction:
        last = transaction.rows("SELECT max(id) AS id FROM attempt WHERE task_id = ?", (task.id,))[0]["id"]
        values: dict[str, object] = {
            "task_id": task.id,
            "attempt_id": last,
            "at": now,
            "decision": decision,
            "kind": kind,
            "actor": clean(by, 200),
            "text": clean(text),
            "result_commit": task.result_commit,
            "data": dump(dict(data)) if data else None,
        }
        number = transaction.insert("review", values)
        values["judge"] = values.pop("kind")  # `kind` is the journal's own word
        transaction.journal("review", {"id": number, **values})
        said = _EVENTS[decision].format(by=by) + (f": {text}" if text else "")
        queue.write_event(transaction, task.id, now, "review", said, by, attempt_id=last, data=data)


def decide(
    store: Store,
    task: Task,
    now: float,
    status: Status,
    *,
    by: str,
    text: str = "",
    data: Mapping[str, object] | None = None,
) -> Task:
    """A person accepts or rejects. Refused when the task may not become that, with nothing written."""
    decision: Decision = "accepted" if status is Status.ACCEPTED else "rejected"
    reason = _EVENTS[decision].format(by=by) + (f": {text}" if text else "")
    with store.write() as transaction:
        current = queue.get(store, task.id)
        queue.apply(transaction, current, now, {"status": status, "status_reason": reason})
        changed = queue.get(store, task.id)
        write(store, changed, now, decision, kind="person", by=by, text=text, data=data)
    return changed


def of(store: Store, task_id: int) -> list[Review]:
    """All judgements of a task, oldest first."""
    return [_review(row) for row in store.read("SELECT * FROM review WHERE task_id = ? ORDER BY id", (task_id,))]


def landed(store: Store, task_id: int) -> str | None:
    """The commit as which an accepted result was brought into another branch, None when it was not."""
    shas = [review.data.get("sha") for review in of(store, task_id) if review.decision == "accepted"]
    return next((str(sha) for sha in reversed(shas) if sha), None)


def _review(row: sqlite3.Row) -> Review:
    return Review(
        id=row["id"],
        task_id=row["task_id"],
        attempt_id=row["attempt_id"],
        at=row["at"],
        decision=row["decision"],
        kind=row["kind"],
        by=row["actor"],
        text=row["text"],
        result_commit=row["result_commit"],
        data=json.loads(row["data"]) if row["data"] else {},
    )
