"""Rows of what was run elsewhere: a task that rests and its one attempt, written together."""

from __future__ import annotations

from dispatcher.store.database import Store
from dispatcher.store.queue import NewTask, write_event
from dispatcher.store.rows import columns
from dispatcher.store.text import clean
from dispatcher.task import Attempt, Counters, Difficulty, Expect, NextStep, Source, Status, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_KNOWN = "SELECT marker, session_id FROM attempt"


def known(store: Store) -> tuple[set[str], set[str]]:
    """Markers and session ids of all attempts: what an import leaves out."""
    markers, sessions = set[str](), set[str]()
    for row in store.read(_KNOWN):
        markers.add(row["marker"])
        if row["session_id"] is not None:
            sessions.add(row["session_id"])
    return markers, sessions


def add(
    store: Store, new: NewTask, attempt: Mapping[str, object], status: Status, reason: str, now: float
) -> tuple[int, int]:
    """Store one run; gives the ids of its task and its attempt."""
    ended = attempt["ended_at"]
    task = {
        **{name: getattr(new, name) for name in _FIELDS},
        "repository": None if new.repository is None else clean(new.repository),
        "status": status,
        "status_reason": reason,
        "created_at": attempt["started_at"],
        "updated_at": ended,
        "source": Source.IMPORT,
        "final_text": attempt.get("final_text"),
        "flags": (),
        "next": NextStep(),
        "counters": Counters(starts=1),
    }
    with store.write() as transaction:
        values = columns(task, Task.__dataclass_fields__)
        number = transaction.insert("task", {**values, "notes": ""})
        transaction.journal("task", {"id": number, **values})
        row = columns({**_PLAIN, **attempt, "task_id": number, "number": 1}, Attempt.__dataclass_fields__)
        attempt_id = transaction.insert("attempt", row)
        transaction.journal("attempt", {"id": attempt_id, **row})
        write_event(transaction, number, now, "added", "read from a log of another program", attempt_id=attempt_id)
    return number, attempt_id


_FIELDS = ("title", "brief_text", "brief_digest", "difficulty", "difficulty_reason", "expect", "priority")
_PLAIN: Mapping[str, object] = {
    "proof": "",
    "verdict_reason": "",
    "counted": False,
    "timed_out": False,
    "notes": (),
}


# --- a rebuild -----------------------------------------------------------------------------------------------------


def insert_attempt(store: Store, fields: Mapping[str, object]) -> None:
    """An attempt that is told by its folder alone."""
    with store.write() as transaction:
        transaction.insert("attempt", columns({**_REBUILT, **fields}, Attempt.__dataclass_fields__))


def change_attempt(store: Store, attempt_id: int, fields: Mapping[str, object]) -> None:
    with store.write() as transaction:
        transaction.change("attempt", attempt_id, columns(fields, Attempt.__dataclass_fields__))


def insert_lost_task(store: Store, task_id: int, text: str, now: float) -> None:
    """A task whose row and journal are gone. A person has to look at it."""
    task = {
        "title": f"Task {task_id}, whose brief is lost",
        "brief_text": text,
        "brief_digest": "",
        "difficulty": Difficulty.MEDIUM,
        "difficulty_reason": "not known: the database was lost",
        "expect": Expect.COMMIT,
        "priority": 0,
        "status": Status.NEEDS_HUMAN,
        "status_reason": "the database was lost, and this task is known by its attempt folders only",
        "created_at": now,
        "updated_at": now,
        "source": Source.TERMINAL,
        "flags": (),
        "next": NextStep(),
        "counters": Counters(),
    }
    with store.write() as transaction:
        values = columns(task, Task.__dataclass_fields__)
        transaction.insert("task", {"id": task_id, **values, "notes": ""})


_REBUILT: Mapping[str, object] = {**_PLAIN, "final_text": "", "host": "", "source": Source.TERMINAL}
