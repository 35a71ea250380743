"""The queue: add, claim, change, list. The hot path: named SQL over the plain driver, one short transaction per write.

A task belongs to the runner that claimed it (`owner`) until its status changes. A claim is one statement inside
BEGIN IMMEDIATE, so two runners never get the same task and `jobs` is a limit of the whole home.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence

from dispatcher.errors import BadInput, NotFound, Refused
from dispatcher.record import record
from dispatcher.store import locks
from dispatcher.store.database import Store, Transaction
from dispatcher.store.rows import columns, dump, task_of
from dispatcher.store.text import MAX_LINE, clean
from dispatcher.task import TRANSITIONS, Counters, Difficulty, Expect, NextStep, Source, Status, Task

TYPE_CHECKING = False  # typing itself would cost a tenth of the start-up
if TYPE_CHECKING:
    from typing import Literal

BY = "dispatcher"  # who did it, when no person did


@record
class NewTask:
    """What is known of a task when it is added. `brief_digest` is computed when it is left empty."""

    title: str
    brief_text: str
    difficulty: Difficulty
    difficulty_reason: str
    repository: str | None = None
    brief_path: str | None = None
    brief_digest: str = ""
    expect: Expect = Expect.COMMIT
    priority: int = 0
    batch: str | None = None
    source: Source = Source.TERMINAL
    not_before: float | None = None
    after: tuple[int, ...] = ()  # ids of tasks that must be at least needs_review
    after_accepted: tuple[int, ...] = ()  # ids of tasks that must be accepted
    flags: tuple[str, ...] = ()


@record
class Added:
    """`exists`: nothing was changed; `task` is the one that was there, whatever became of it."""

    task: Task
    how: Literal["added", "updated", "exists"]


@record
class Event:
    at: float
    kind: str
    text: str
    by: str
    attempt_id: int | None = None
    data: str | None = None  # JSON


@record
class Blocker:
    """A task that another one still waits for."""

    task_id: int
    status: Status
    kind: Literal["after", "after_accepted"]


# --- add -----------------------------------------------------------------------------------------------------------

_SAME_BRIEF = "SELECT * FROM task WHERE brief_digest = ? ORDER BY id DESC LIMIT 1"
_SAME_FILE = (
    "SELECT * FROM task t WHERE brief_path = ? AND repository IS ? AND status IN ('queued', 'waiting', 'paused') "
    "AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.task_id = t.id) ORDER BY id DESC LIMIT 1"
)
_NEW_BATCH = "INSERT INTO batch (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_EDITABLE = ("title", "brief_text", "brief_digest", "difficulty", "difficulty_reason", "expect", "priority")


def digest(repository: str | None, brief_text: str) -> str:
    """What makes two adds the same: the repository's path and the text of the brief."""
    import hashlib

    return hashlib.sha256(f"{repository or ''}\0{brief_text}".encode(errors="surrogatepass")).hexdigest()


def add(store: Store, new: NewTask, now: float, *, again: bool = False, by: str = BY) -> Added:
    """Queue a brief, unless it is there.

    The same brief for the same repository is not queued twice (`again` does). A brief whose file was edited before its
    first attempt replaces the text of its task.
    """
    fields = {name: getattr(new, name) for name in _EDITABLE}
    fields["brief_digest"] = new.brief_digest or digest(new.repository, new.brief_text)
    with store.write() as transaction:
        if not again and (known := _already_there(transaction, new, str(fields["brief_digest"]))):
            return _edit(transaction, known, new, fields, now, by)
        return Added(_insert(transaction, new, fields, now, by), "added")


def _already_there(transaction: Transaction, new: NewTask, brief_digest: str) -> Task | None:
    rows = transaction.rows(_SAME_BRIEF, (brief_digest,))
    if not rows and new.brief_path is not None:
        rows = transaction.rows(_SAME_FILE, (new.brief_path, new.repository))
    return task_of(rows[0]) if rows else None


def _insert(transaction: Transaction, new: NewTask, fields: dict[str, object], now: float, by: str) -> Task:
    if new.batch is not None:
        transaction.execute(_NEW_BATCH, (clean(new.batch, MAX_LINE), now))
    values = columns(
        {
            **fields,
            "brief_path": new.brief_path,
            "repository": new.repository,
            "batch": new.batch,
            "source": new.source,
            "not_before": new.not_before,
            "status": Status.QUEUED,
            "status_reason": "added",
            "created_at": now,
            "updated_at": now,
            "flags": new.flags,
            "next": NextStep(),
            "counters": Counters(),
        },
        Task.__dataclass_fields__,
    )
    task_id = transaction.insert("task", {**values, "notes": ""})
    _set_dependencies(transaction, task_id, new)
    transaction.journal("task", {"id": task_id, **values, "after": new.after, "after_accepted": new.after_accepted})
    write_event(transaction, task_id, now, "added", f"added as {new.difficulty}: {new.difficulty_reason}", by)
    return _get(transaction, task_id)


def _edit(transaction: Transaction, known: Task, new: NewTask, fields: dict[str, object], now: float, by: str) -> Added:
    wanted = columns(fields, Task.__dataclass_fields__)
    current = columns({name: getattr(known, name) for name in fields}, Task.__dataclass_fields__)
    same = wanted == current and _dependencies(transaction, known.id) == _wanted_dependencies(new)
    if same or known.status is not Status.QUEUED or known.counters.starts:
        return Added(known, "exists")
    transaction.change("task", known.id, {**wanted, "updated_at": now})
    _set_dependencies(transaction, known.id, new)
    transaction.journal("edit", {"id": known.id, **wanted, "after": new.after, "after_accepted": new.after_accepted})
    write_event(transaction, known.id, now, "edited", "the brief was added again while it was queued", by)
    return Added(_get(transaction, known.id), "updated")


def _wanted_dependencies(new: NewTask) -> dict[int, str]:
    return dict.fromkeys(new.after, "after") | dict.fromkeys(new.after_accepted, "after_accepted")


def _dependencies(transaction: Transaction, task_id: int) -> dict[int, str]:
    rows = transaction.rows("SELECT needs_task_id, kind FROM dependency WHERE task_id = ?", (task_id,))
    return {row["needs_task_id"]: row["kind"] for row in rows}


_REACHES = """
WITH RECURSIVE chain (id) AS (
    SELECT ? UNION SELECT d.needs_task_id FROM dependency d JOIN chain ON d.task_id = chain.id
)
SELECT 1 FROM chain WHERE id = ?
"""


def _set_dependencies(transaction: Transaction, task_id: int, new: NewTask) -> None:
    transaction.execute("DELETE FROM dependency WHERE task_id = ?", (task_id,))
    for needed, kind in _wanted_dependencies(new).items():
        if not transaction.rows("SELECT 1 FROM task WHERE id = ?", (needed,)):
            raise NotFound(f"there is no task {needed} to wait for", hint="dispatcher status --all lists the tasks")
        if transaction.rows(_REACHES, (needed, task_id)):
            raise BadInput(f"task {task_id} cannot wait for task {needed}: that one waits for it")
        values = {"task_id": task_id, "needs_task_id": needed, "kind": kind}
        transaction.insert("dependency", values)


# --- claim ---------------------------------------------------------------------------------------------------------

# A waiting task without a time waits for a person. A task whose last worker is not settled yet is left alone: two
# workers must never share a copy. The index is named because the planner would sort all queued tasks for each claim.
_CLAIM = """
UPDATE task SET status = 'running', status_reason = 'claimed', owner = :owner, claimed_at = :now, updated_at = :now,
    not_before = NULL
WHERE id = (
    SELECT t.id FROM task t INDEXED BY task_ready
    WHERE t.status IN ('queued', 'waiting')
      AND (t.not_before <= :now OR t.not_before IS NULL AND t.status = 'queued')
      {only}
      AND NOT EXISTS (
        SELECT 1 FROM dependency d JOIN task n ON n.id = d.needs_task_id
        WHERE d.task_id = t.id AND n.status <> 'accepted' AND (d.kind = 'after_accepted' OR n.status <> 'needs_review')
      )
      AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.task_id = t.id AND a.ended_at IS NULL)
    ORDER BY t.priority DESC, t.id LIMIT 1
) AND (SELECT count(*) FROM task WHERE status = 'running') < :jobs
RETURNING *
"""


def claim(
    store: Store, *, owner: str, now: float, jobs: int, task_id: int | None = None, batch: str | None = None
) -> Task | None:
    """Take the next task that may run now, or None. `jobs` counts the running tasks of every runner of the home."""
    only = ("AND t.id = :task_id " if task_id is not None else "") + ("AND t.batch = :batch" if batch else "")
    values = {"owner": owner, "now": now, "jobs": jobs, "task_id": task_id, "batch": batch}
    with store.write() as transaction:
        rows = transaction.rows(_CLAIM.format(only=only), values)
        if not rows:
            return None
        task = task_of(rows[0])
        write_event(transaction, task.id, now, "claimed", f"claimed by {owner}")
        return task


def take_over(store: Store, task_id: int, *, owner: str, now: float) -> Task | None:
    """Claim a running task whose owner is gone; None when it is not running any more or somebody alive has it.

    The lock files lie beside the database. The test and the change are one transaction, so one runner wins.
    """
    logs = os.path.dirname(store.path)
    with store.write() as transaction:
        task = _get(transaction, task_id)
        if task.status is not Status.RUNNING or (task.owner is not None and locks.owner_alive(logs, task.owner)):
            return None
        transaction.change("task", task_id, {"owner": owner, "claimed_at": now, "updated_at": now})
        write_event(transaction, task_id, now, "adopted", f"taken over by {owner}; {task.owner} is gone")
        return _get(transaction, task_id)


def orphans(store: Store) -> list[Task]:
    """Running tasks whose owner is not alive: what a crash left."""
    logs = os.path.dirname(store.path)
    running_tasks = running(store)
    alive = {owner: locks.owner_alive(logs, owner) for owner in {task.owner for task in running_tasks} if owner}
    return [task for task in running_tasks if task.owner is None or not alive[task.owner]]


# --- change --------------------------------------------------------------------------------------------------------


def update(
    store: Store,
    task_id: int,
    now: float,
    *,
    owner: str | None = None,
    event: str | None = None,
    by: str = BY,
    **fields: object,
) -> Task:
    """Change fields of a task. Raises Refused when the status may not follow, or `owner` does not have the task.

    A task that stops running has no owner any more; a new status forgets `not_before` unless it brings its own.
    """
    with store.write() as transaction:
        task = _get(transaction, task_id)
        if owner is not None and task.owner != owner:
            raise Refused(f"task {task_id} does not belong to this run any more: it is {task.status}")
        apply(transaction, task, now, fields)
        said = event or (str(fields.get("status_reason") or fields["status"]) if "status" in fields else None)
        if said:
            write_event(transaction, task_id, now, "status" if "status" in fields else "note", said, by)
        return _get(transaction, task_id)


def apply(transaction: Transaction, task: Task, now: float, fields: dict[str, object]) -> None:
    """The part of `update` that other transactions share: check the status, write the row and the journal."""
    fields = dict(fields)
    status = fields.get("status", task.status)
    if status != task.status:
        status = Status(str(status))
        if status not in TRANSITIONS[task.status]:
            raise Refused(f"task {task.id} is {task.status} and cannot become {status}")
        fields.setdefault("not_before", None)
        fields.setdefault("owner", None)
    values = columns(fields, _CHANGEABLE)
    transaction.change("task", task.id, {**values, "updated_at": now})
    kept = {name: value for name, value in values.items() if name not in _NOT_IN_JOURNAL}
    if kept:
        transaction.journal("change", {"id": task.id, **kept})


_CHANGEABLE = {name: None for name in Task.__dataclass_fields__ if name not in ("id", "created_at", "updated_at")}
_NOT_IN_JOURNAL = frozenset({"owner", "final_text", "task_base"})  # short-lived, or told by the attempt folders


def add_note(store: Store, task_id: int, now: float, note: str, by: str) -> None:
    """A person's words about a task; `log --text` finds them."""
    words = clean(note)
    with store.write() as transaction:
        _get(transaction, task_id)
        transaction.execute(
            "UPDATE task SET notes = CASE notes WHEN '' THEN :note ELSE notes || char(10) || :note END WHERE id = :id",
            {"note": words, "id": task_id},
        )
        transaction.journal("note", {"id": task_id, "note": words, "by": by})
        write_event(transaction, task_id, now, "note", words, by)


def write_event(
    transaction: Transaction,
    task_id: int | None,
    now: float,
    kind: str,
    said: str,
    by: str = BY,
    *,
    attempt_id: int | None = None,
    data: object = None,
) -> None:
    transaction.execute(
        "INSERT INTO event (task_id, attempt_id, at, kind, text, actor, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (task_id, attempt_id, now, kind, clean(said, MAX_LINE), clean(by, 200), None if data is None else dump(data)),
    )


# --- look ----------------------------------------------------------------------------------------------------------


def _get(transaction: Transaction, task_id: int) -> Task:
    return _one(transaction.rows("SELECT * FROM task WHERE id = ?", (task_id,)), task_id)


def _one(rows: Sequence[sqlite3.Row], task_id: int) -> Task:
    if not rows:
        raise NotFound(f"there is no task {task_id}", hint="dispatcher status --all lists the tasks")
    return task_of(rows[0])


def get(store: Store, task_id: int) -> Task:
    return _one(store.read("SELECT * FROM task WHERE id = ?", (task_id,)), task_id)


def find(store: Store, reference: str) -> Task:
    """The task that a person means: its id, else the newest one with that brief path, file name or title."""
    if reference.isascii() and reference.isdigit():
        return get(store, int(reference))
    wanted = clean(reference)
    row = store.first("SELECT * FROM task WHERE brief_path = ? ORDER BY id DESC LIMIT 1", (wanted,)) or store.first(
        "SELECT * FROM task WHERE title = :name OR brief_path LIKE '%/' || :like ESCAPE '\\' "
        "OR brief_path LIKE '%/' || :like || '.md' ESCAPE '\\' ORDER BY id DESC LIMIT 1",
        {"name": wanted, "like": wanted.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")},
    )
    if row is None:
        raise NotFound(f"there is no task {wanted!r}", hint="name it by its number, its brief's file name or its title")
    return task_of(row)


def tasks(
    store: Store,
    *,
    status: Status | Iterable[Status] | None = None,
    batch: str | None = None,
    repository: str | None = None,
    limit: int | None = None,
) -> list[Task]:
    """Tasks by id, oldest first. With `limit` the newest ones, still oldest first."""
    conditions, values = ["1"], list[object]()
    if status is not None:
        wanted = [status] if isinstance(status, Status) else list(status)
        conditions.append(f"status IN ({', '.join('?' * len(wanted))})")
        values += [str(one) for one in wanted]
    for name, value in (("batch", batch), ("repository", repository)):
        if value is not None:
            conditions.append(f"{name} = ?")
            values.append(value)
    cut = "" if limit is None else f" LIMIT {int(limit)}"
    rows = store.read(f"SELECT * FROM task WHERE {' AND '.join(conditions)} ORDER BY id DESC{cut}", values)
    return [task_of(row) for row in reversed(rows)]


def running(store: Store) -> list[Task]:
    return tasks(store, status=Status.RUNNING)


def counts(store: Store) -> dict[Status, int]:
    """How many tasks stand in each status; a status without tasks is left out."""
    rows = store.read("SELECT status, number FROM task_count WHERE number > 0")
    return {Status(row["status"]): row["number"] for row in rows}


def next_wake(store: Store) -> float | None:
    """The earliest time at which a task that waits now may be claimed."""
    row = store.first(
        "SELECT min(not_before) AS at FROM task WHERE status IN ('queued', 'waiting') AND not_before IS NOT NULL"
    )
    return None if row is None else row["at"]


_WAITS_SINCE = """
SELECT min(at) AS at FROM event WHERE task_id = :id AND kind = 'status' AND actor = :by AND id > coalesce(
    (SELECT max(id) FROM event WHERE task_id = :id AND (kind = 'attempt_started' OR actor <> :by)), 0
)
"""


def waits_since(store: Store, task_id: int) -> float | None:
    """When a task began to wait: since then no attempt was started and no person touched it."""
    row = store.first(_WAITS_SINCE, {"id": task_id, "by": BY})
    return None if row is None else row["at"]


def events(store: Store, task_id: int) -> list[Event]:
    rows = store.read("SELECT * FROM event WHERE task_id = ? ORDER BY id", (task_id,))
    return [Event(row["at"], row["kind"], row["text"], row["actor"], row["attempt_id"], row["data"]) for row in rows]


def blockers(store: Store, task_id: int) -> list[Blocker]:
    """What a task still waits for; a task that can never get there (cancelled, failed) is named too."""
    rows = store.read(
        "SELECT d.kind, n.id, n.status FROM dependency d JOIN task n ON n.id = d.needs_task_id WHERE d.task_id = ? "
        "AND n.status <> 'accepted' AND (d.kind = 'after_accepted' OR n.status <> 'needs_review') ORDER BY n.id",
        (task_id,),
    )
    return [Blocker(row["id"], Status(row["status"]), row["kind"]) for row in rows]


def predecessors(store: Store, task_id: int) -> list[Task]:
    """The tasks that this one comes after and that left a commit in the same repository, by id: it starts from them."""
    rows = store.read(
        "SELECT n.* FROM task t JOIN dependency d ON d.task_id = t.id JOIN task n ON n.id = d.needs_task_id "
        "WHERE t.id = ? AND n.result_commit IS NOT NULL AND n.repository IS t.repository ORDER BY n.id",
        (task_id,),
    )
    return [task_of(row) for row in rows]
