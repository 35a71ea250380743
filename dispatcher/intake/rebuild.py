"""A lost database made anew: queue, holds, reviews, approvals and attempts from the journal, the rest from folders.

One journal may tell of two queues: a database that was lost without being noticed began to count from 1 again. Whatever
has a number that is taken gets the next free one, and the lines after it are about that one.

The journal repeats every change after its commit, so its order is the order of what happened. What was imported stands
in it row by row and comes back as it stood. Attempts that it does not know (a power cut took its last lines, or it is
lost itself) are read from their folders: the harness judges their output again. Nothing runs by itself afterwards that
was not certain before: a task with an attempt that nobody judged needs a person. The old database and the journal are
left as they are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher import harness
from dispatcher.errors import DispatcherError, Refused
from dispatcher.harness.base import BRIDGE_FILE
from dispatcher.intake import claude_store
from dispatcher.store import Store, imported, journal, open, transfer
from dispatcher.supervisor import client, spec
from dispatcher.task import Billing, ExitRecord, ModelEvidence, Outcome, OutcomeClass, PromptKind, Status
from dispatcher.words import plural

LONGEST_LINE = 4 * 1024 * 1024
_PLACE = re.compile(r"(\d+)(\.before-\d+)?")  # of an attempt in the folder of its task
_ROWS = {  # kinds that bring a row -> its table
    "task": "task",
    "attempt": "attempt",
    "hold": "hold",
    "review": "review",
    "approval": "approval",
    "grant": "approval_grant",
}
_CHANGES = {  # kinds that change columns of a row -> its table
    "edit": "task",
    "change": "task",
    "ended": "attempt",
    "answer": "approval",
    "consumed": "approval",
}
_REFERENCES = {  # column -> table
    "task_id": "task",
    "needs_task_id": "task",
    "attempt_id": "attempt",
    "approval_id": "approval",
}
_NOTE = "UPDATE task SET notes = CASE notes WHEN '' THEN :note ELSE notes || char(10) || :note END WHERE id = :id"
_UNJUDGED = "the database was rebuilt, and nobody has judged its last attempt"


@dataclass
class Rebuilt:
    database: str
    tasks: int = 0
    attempts: int = 0
    notes: tuple[str, ...] = ()


def rebuild(database: Path, now: float, *, tell: Callable[[int], None] | None = None) -> Rebuilt:
    """Make the database at `database` from what lies beside it. Refused when there is one with tasks in it."""
    with open(database, rebuild=True) as store:
        if store.read("SELECT 1 FROM task LIMIT 1"):
            raise Refused(
                f"{database} has tasks in it; it is not replaced",
                hint="move it away first, if it is the damaged one: mv dispatcher.db dispatcher.db.old",
            )
        with store.write(), transfer.bulk(store):
            notes = _Notes()
            count = _replay(store, journal.path_of(str(database)), notes, tell)
            told = set[int]()
            for folder in _folders(database.parent):
                count += 1
                if tell is not None:
                    tell(count)
                if (task := _take_folder(store, folder, now, notes)) is not None:
                    told.add(task)
            _end_without_folder(store, now)
            _fill_tasks(store, told)
            _leave_to_people(store, now)
        tasks, attempts = (store.read(f"SELECT count(*) AS n FROM {name}")[0]["n"] for name in ("task", "attempt"))
        return Rebuilt(str(database), tasks, attempts, tuple(notes.lines()))


class _Notes:
    """What could not be used, counted by reason."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.said: list[str] = []

    def say(self, words: str) -> None:
        self.said.append(words)

    def add(self, reason: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1

    def lines(self) -> Iterator[str]:
        yield from self.said
        for reason, count in self.counts.items():
            yield f"{plural(count, 'time')}: {reason}"


# --- the journal ---------------------------------------------------------------------------------------------------


def _replay(store: Store, path: str, notes: _Notes, tell: Callable[[int], None] | None) -> int:
    if not os.path.exists(path):
        notes.add("there is no journal; briefs, holds and reviews are lost")
        return 0
    known = {table: _columns(store, table) for table in transfer.TABLES}
    numbers = _Numbers(store, notes)
    count = 0
    for count, entry in enumerate(journal.entries(path), 1):
        if tell is not None:
            tell(count)
        try:
            line = numbers.translated(entry)
            if line is not None:
                _apply(store, line, known)
        except (DispatcherError, KeyError, TypeError, ValueError) as error:
            notes.add(f"a line of the journal could not be used ({type(error).__name__})")
    return count


class _Numbers:
    """The numbers of the journal and those of the rows, where a second queue used the same ones."""

    def __init__(self, store: Store, notes: _Notes) -> None:
        self.store = store
        self.notes = notes
        self.now: dict[tuple[str, int], int] = {}

    def translated(self, entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The line with the numbers of the rows; None when it only repeats a row that is there."""
        if entry["kind"] == "row":
            return self._imported(entry)
        found = self._references(entry)
        kind = found["kind"]
        if kind in _ROWS:
            return self._row(_ROWS[kind], found)
        if kind == "checks":
            found["results"] = [self._references(row) for row in found["results"]]
        tables = {"checks": "attempt", "note": "task", "lift": "hold", "revoke": "approval_grant", **_CHANGES}
        return found if kind not in tables else {**found, "id": self._of(tables[kind], found["id"])}

    def _imported(self, entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
        row: dict[str, Any] | None = self._references(entry["row"])
        if row and "id" in row:
            row = self._row(entry["table"], row)
        return row and {**entry, "row": row}

    def _references(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(entry)
        for name, table in _REFERENCES.items():
            if found.get(name) is not None:
                found[name] = self._of(table, found[name])
        for name in ("after", "after_accepted"):
            if name in found:
                found[name] = [self._of("task", needed) for needed in found[name]]
        return found

    def _row(self, table: str, entry: dict[str, Any]) -> dict[str, Any] | None:
        old = int(entry["id"])
        there = self.store.first(f"SELECT * FROM {table} WHERE id = ?", (self._of(table, old),))
        if there is None:
            return {**entry, "id": self._of(table, old)}
        if all(entry.get(name) == there[name] for name in _SAME if name in there.keys()):  # noqa: SIM118  (a Row)
            return None
        new = int(self.store.read(f"SELECT max(id) + 1 AS id FROM {table}")[0]["id"])
        self.now[table, old] = new
        if table == "task":
            self.notes.say(f"the journal tells of two tasks {old}: the later one is task {new} now")
        return {**entry, "id": new}

    def _of(self, table: str, number: Any) -> int:
        return self.now.get((table, int(number)), int(number))


# What no two rows of one number share, and what never changes in a row.
_SAME = ("created_at", "started_at", "asked_at", "at", "marker", "brief_digest", "key", "text", "tool", "task_id")


def _columns(store: Store, table: str) -> frozenset[str]:
    return frozenset(row["name"] for row in store.read(f"SELECT name FROM pragma_table_info('{table}')"))


def _apply(store: Store, entry: Mapping[str, Any], known: Mapping[str, frozenset[str]]) -> None:
    kind, at = entry["kind"], float(entry["at"])
    with store.write() as transaction:
        if kind in _ROWS:
            _put(store, _ROWS[kind], {**entry, "kind": entry.get("judge")}, known[_ROWS[kind]])
        elif kind in _CHANGES:
            table = _CHANGES[kind]
            values = {name: entry[name] for name in entry if name in known[table] and name != "id"}
            values |= {"updated_at": at} if table == "task" else {}
            values |= {"status": "consumed"} if kind == "consumed" else {}  # an answer is good for one call
            transaction.change(table, int(entry["id"]), values)
        elif kind == "checks":
            transaction.change("attempt", int(entry["id"]), {"checks": entry["checks"]})
            for row in entry["results"]:
                _put(store, "check_result", row, known["check_result"])
        elif kind == "note":
            transaction.execute(_NOTE, {"note": str(entry["note"]), "id": int(entry["id"])})
        elif kind == "lift":
            transaction.change("hold", int(entry["id"]), {"lifted_at": at, "lifted_by": str(entry["by"])})
        elif kind == "revoke":
            transaction.change("approval_grant", int(entry["id"]), {"revoked_at": at, "revoked_by": str(entry["by"])})
        elif kind == "row":
            _put_imported(store, entry["table"], entry["row"], known[entry["table"]])
        elif kind == "sequence":
            _count_from(store, str(entry["name"]), int(entry["last"]))
        if kind in ("task", "edit"):
            _dependencies(store, entry)


def _put(store: Store, table: str, entry: Mapping[str, Any], known: frozenset[str]) -> None:
    row = {name: value for name, value in entry.items() if name in known}
    if table == "task":
        row.setdefault("notes", "")
        if row.get("batch") is not None:
            new = "INSERT OR IGNORE INTO batch (name, created_at) VALUES (?, ?)"
            store.connection.execute(new, (row["batch"], row["created_at"]))
    with store.write() as transaction:
        transaction.insert(table, row)


def _put_imported(store: Store, table: str, entry: Mapping[str, Any], known: frozenset[str]) -> None:
    """As it stood in the export. What has no number of its own may be there already: of another queue, or twice."""
    row = {name: value for name, value in entry.items() if name in known}
    transfer.insert(store, table, row, "the journal", verb="INSERT" if "id" in row else "INSERT OR IGNORE")


def _count_from(store: Store, table: str, last: int) -> None:
    """Numbers that an imported log had used up are not used again."""
    if table in transfer.TABLES:
        reached = store.first("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        transfer.set_sequence(store, table, max(last, reached["seq"] if reached is not None else 0))


def _dependencies(store: Store, entry: Mapping[str, Any]) -> None:
    with store.write() as transaction:
        transaction.execute("DELETE FROM dependency WHERE task_id = ?", (int(entry["id"]),))
        for kind in ("after", "after_accepted"):
            for needed in entry.get(kind, ()):
                values = {"task_id": int(entry["id"]), "needs_task_id": int(needed), "kind": kind}
                transaction.insert("dependency", values)


# --- attempt folders -----------------------------------------------------------------------------------------------


def _folders(logs: Path) -> list[Path]:
    """`logs/<task>/<attempt>` with an attempt.json, by number; after them those that stood in the way of another
    attempt of their number, and are kept beside it."""
    found = [file.parent for file in logs.glob("*/*/attempt.json") if file.parent.parent.name.isdecimal()]
    named = [(folder, _PLACE.fullmatch(folder.name)) for folder in found]
    numbered = [(bool(name[2]), int(folder.parent.name), int(name[1]), folder) for folder, name in named if name]
    return [folder for *_, folder in sorted(numbered)]


def _take_folder(store: Store, folder: Path, now: float, notes: _Notes) -> int | None:
    """The task that the folder told of."""
    task, number = int(folder.parent.name), int(folder.name.partition(".")[0])
    try:
        attempt = spec.read(folder)
        record = spec.read_exit(folder)
        outcome = _outcome(folder, attempt, record, now)
    except (DispatcherError, OSError, ValueError) as error:
        notes.add(f"an attempt folder could not be read ({type(error).__name__})")
        return None
    row = store.first("SELECT id, task_id, ended_at FROM attempt WHERE marker = ?", (attempt.marker,))
    if row is not None:
        told = {"final_text": outcome.final_text} if row["ended_at"] is not None else _ended(record, outcome, now)
        imported.change_attempt(store, row["id"], {**told, **client.worker_of(folder), "folder": str(folder)})
        return int(row["task_id"])
    if store.first("SELECT 1 FROM attempt WHERE task_id = ? AND number = ?", (task, number)):
        notes.say(f"{folder} is not read: attempt {number} of task {task} was another one")
        return None
    _add_task(store, task, folder, now)
    started = record.started_at if record else (folder / "attempt.json").stat().st_mtime
    values = _begun(task, number, folder, attempt, started)
    imported.insert_attempt(store, {**values, **client.worker_of(folder), **_ended(record, outcome, now)})
    return task


def _end_without_folder(store: Store, now: float) -> None:
    """Attempts that were at work when their queue was lost and whose folder is gone: left open, a later run would
    speak to whoever has a folder of that name now."""
    for row in store.read("SELECT id FROM attempt WHERE ended_at IS NULL"):
        gone = Outcome(OutcomeClass.LOST, "its queue was lost while it ran, and its folder is gone")
        imported.change_attempt(store, row["id"], {**_ended(None, gone, now), "notes": ()})


def _outcome(folder: Path, attempt: spec.AttemptSpec, record: ExitRecord | None, now: float) -> Outcome:
    name = attempt.harness or ""
    if name not in harness.names():
        return Outcome(OutcomeClass.UNKNOWN, f"there is no harness {name!r}")
    found = harness.get(name).read(
        _lines(folder / "stdout"),
        _lines(folder / "stderr"),
        _lines(folder / BRIDGE_FILE),
        record,
        now=now,
        session=claude_store.record(attempt.sessions, record.session_id if record else None),
    )
    if record is None and not found.positive:
        return Outcome(OutcomeClass.LOST, "no exit record: the supervisor did not end by itself")
    return found


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists():
        with path.open("rb") as file:
            while line := file.readline(LONGEST_LINE):
                yield line.rstrip(b"\r\n")


def _begun(task: int, number: int, folder: Path, attempt: spec.AttemptSpec, started: float) -> dict[str, object]:
    name = attempt.harness or "unknown"
    return {
        "task_id": task,
        "number": number,
        "prompt": _prompt_kind(folder),
        "candidate": attempt.candidate or "unknown",
        "harness": name,
        "harness_version": attempt.versions.get(name),
        "model": attempt.model,
        "credential": attempt.credential or "unknown",
        "billing": attempt.billing if attempt.billing in set(Billing) else Billing.METERED,
        "folder": str(folder),
        "marker": attempt.marker,
        "started_at": started,
        "model_evidence": ModelEvidence.UNVERIFIED,
    }


def _prompt_kind(folder: Path) -> PromptKind:
    """The first line of our prompts names the kind."""
    try:
        with (folder / "prompt.md").open(encoding="utf-8", errors="replace") as file:
            word = file.readline(200).rpartition("Prompt:")[2].strip(" .\n")
        return PromptKind(word)
    except (OSError, ValueError):
        return PromptKind.FIRST


def _ended(record: ExitRecord | None, outcome: Outcome, now: float) -> dict[str, object]:
    found: dict[str, object] = {
        "ended_at": record.ended_at if record else now,
        "outcome": outcome.kind,
        "outcome_reason": outcome.reason,
        "proof": outcome.proof,
        "session_id": outcome.session_id,
        "usage": outcome.usage,
        "observed_model": outcome.observed_model,
        "model_evidence": outcome.model_evidence,
        "final_text": outcome.final_text,
        "notes": (*outcome.notes, "read again from its folder"),
    }
    if record is not None:
        found |= {
            "exit_code": record.exit_code,
            "signal": record.signal,
            "timed_out": record.timed_out,
            "end_reason": str(record.reason),
            "survivors": record.survivors,
            "detection": record.detection,
            "seconds": record.active_seconds,
        }
    return found


def _add_task(store: Store, task: int, folder: Path, now: float) -> None:
    """A task of which only attempt folders are left: its prompt is the best that there is of its brief."""
    if store.first("SELECT 1 FROM task WHERE id = ?", (task,)) is not None:
        return
    try:
        text = (folder / "prompt.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    imported.insert_lost_task(store, task, text, now)


_LAST_WORDS = (
    "UPDATE task SET final_text = coalesce((SELECT a.final_text FROM attempt a WHERE a.task_id = task.id "
    "AND a.final_text <> '' ORDER BY a.number DESC LIMIT 1), final_text) WHERE id = ?"
)


def _fill_tasks(store: Store, told: Iterable[int]) -> None:
    """What the journal leaves out because the folders have it: the last words, and where the task began."""
    with store.write() as transaction:
        for task in sorted(told):
            transaction.execute(_LAST_WORDS, (task,))
        for row in store.read("SELECT task_id, folder, marker FROM attempt WHERE number = 1 AND folder <> ''"):
            before = Path(row["folder"]) / "before.json"
            if before.exists() and _is_of(Path(row["folder"]), row["marker"]):
                text = before.read_text(encoding="utf-8", errors="replace")
                transaction.change("task", row["task_id"], {"task_base": text}, " AND task_base IS NULL")


def _is_of(folder: Path, marker: str) -> bool:
    """Whether the folder is this attempt's: another of the same number may have taken its place."""
    try:
        return spec.read(folder).marker == marker
    except DispatcherError:
        return False


def _leave_to_people(store: Store, now: float) -> None:
    """Tasks that would run again although their last attempt was never judged."""
    rows = store.read(
        "SELECT t.id FROM task t JOIN attempt a ON a.task_id = t.id WHERE t.status IN ('queued', 'running', 'waiting') "
        "AND a.verdict IS NULL AND a.number = (SELECT max(b.number) FROM attempt b WHERE b.task_id = t.id)"
    )
    with store.write() as transaction:
        for row in rows:
            values = {"status": str(Status.NEEDS_HUMAN), "status_reason": _UNJUDGED, "not_before": None, "owner": None}
            transaction.change("task", row["id"], {**values, "updated_at": now})
        transaction.execute(
            "INSERT INTO event (at, kind, text, actor, data) VALUES (?, 'note', 'the database was rebuilt', ?, ?)",
            (now, "dispatcher", json.dumps({"left to a person": [row["id"] for row in rows]})),
        )
