"""The whole log as JSON lines, and back: nothing is lost, and what is exported again is the same text.

The first line says what this is; each other line is one row: `{"table": "task", "row": {...}}`, tables in an order in
which every reference points backwards. What the database derives by itself (text search, sums, counts) is not written.
Times are epoch seconds. Text that is no UTF-8 travels as lone surrogates in ASCII JSON.
"""

from __future__ import annotations

import json
from contextlib import contextmanager

from dispatcher.errors import BadInput, Refused, StoreError
from dispatcher.store import journal, rollup
from dispatcher.store.database import SCHEMA_VERSION, explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from typing import Any

    from dispatcher.store.database import Store

TABLES = (
    "meta",
    "batch",
    "task",
    "dependency",
    "attempt",
    "check_result",
    "event",
    "hold",
    "review",
    "approval",
    "approval_grant",
)
FORMAT = 1
_PAGE = 2000


def export_lines(store: Store) -> Generator[str, None, None]:
    """The log as lines without their ends, from one moment: rows that are written meanwhile are not in it.

    A read transaction is open until the last line was taken or the generator was closed.
    """
    with store.lock:
        store.connection.execute("BEGIN")
        try:
            yield _line({"dispatcher_export": FORMAT, "schema": SCHEMA_VERSION})
            for table in TABLES:
                for row in _rows(store, table):
                    yield _line({"table": table, "row": row})
            for found in store.read("SELECT name, seq FROM sqlite_sequence ORDER BY name"):
                if found["name"] in TABLES:
                    yield _line({"sequence": found["name"], "last": found["seq"]})
        finally:
            store.connection.execute("ROLLBACK")


def _rows(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """By rowid, a page at a time: a million attempts are never in memory together."""
    last = -(2**63)
    while True:
        page = store.read(
            f"SELECT rowid AS rowid_, * FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE}", (last,)
        )
        for found in page:
            row = dict(found)
            last = row.pop("rowid_")
            yield row
        if len(page) < _PAGE:
            return


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def import_lines(store: Store, lines: Iterable[str], *, file: str, tell: Callable[[int], None] | None = None) -> int:
    """Put an export into an empty log, whole or not at all; gives the number of rows.

    Raises BadInput with file and line, and Refused when the log is not empty. `tell` hears the count now and then.
    Each row is a line of the journal: of what came from elsewhere there are no folders to make the database anew from.
    """
    count = 0
    with journal.spooled(journal.path_of(store.path)) as told, store.write() as transaction, bulk(store):
        if any(transaction.rows(f"SELECT 1 FROM {table} LIMIT 1") for table in TABLES if table != "meta"):
            raise Refused(
                "the log of this home is not empty; an export goes into an empty one, so that all numbers stay",
                hint="import it into another home: dispatcher import FILE --home FOLDER",
            )
        transaction.execute("DELETE FROM meta")
        known = {table: _columns(store, table) for table in TABLES}
        for number, line in enumerate(lines, 1):
            if number > 1 and not line.strip():
                continue
            _take(store, line, number, file, known, told)
            count += 1
            if tell is not None and count % 1000 == 0:
                tell(count)
        if not count:
            raise BadInput(f"{file} is empty", hint="it must be a file that `export` wrote")
        broken = transaction.rows("SELECT * FROM pragma_foreign_key_check LIMIT 1")
        if broken:
            raise BadInput(
                f"{file}: a row of {broken[0]['table']} refers to one of {broken[0]['parent']} that is missing"
            )
    return count - 1  # without the head


def _columns(store: Store, table: str) -> frozenset[str]:
    return frozenset(row["name"] for row in store.read(f"SELECT name FROM pragma_table_info('{table}')"))


def _take(
    store: Store,
    line: str,
    number: int,
    file: str,
    known: dict[str, frozenset[str]],
    told: Callable[[str, dict[str, object]], None],
) -> None:
    where = f"{file}:{number}"
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{where}: this is no JSON: {error}", hint="it must be a file that `export` wrote") from None
    if not isinstance(entry, dict):
        raise BadInput(f"{where}: this is no JSON object", hint="it must be a file that `export` wrote")
    if number == 1:
        return _check_head(entry, where)
    if "sequence" in entry:
        name, last = _sequence(entry, where)
        set_sequence(store, name, last)
        return told("sequence", {"name": name, "last": last})
    table, row = entry.get("table"), entry.get("row")
    if table not in known or not isinstance(row, dict) or not row:
        raise BadInput(f"{where}: this is no row of a table that is known here")
    strange = set(row) - known[table]
    if strange:
        raise BadInput(f"{where}: {table} has no column {sorted(strange)[0]!r}", hint="upgrade dispatcher")
    insert(store, table, row, where)
    return told("row", {"table": table, "row": row})


def _check_head(entry: dict[str, Any], where: str) -> None:
    if entry.get("dispatcher_export") != FORMAT:
        raise BadInput(f"{where}: this is no export of dispatcher", hint="for other files see --from")
    if not isinstance(entry.get("schema"), int) or entry["schema"] > SCHEMA_VERSION:
        raise BadInput(f"{where}: a newer dispatcher wrote this export", hint="upgrade dispatcher")


def _sequence(entry: dict[str, Any], where: str) -> tuple[str, int]:
    name, last = entry["sequence"], entry.get("last")
    if name not in TABLES or not isinstance(last, int):
        raise BadInput(f"{where}: this is no sequence that is known here")
    return name, last


def set_sequence(store: Store, name: str, last: int) -> None:
    """The next row of the table gets the number after `last`."""
    store.connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
    store.connection.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (name, last))


def insert(store: Store, table: str, row: Mapping[str, Any], where: str, *, verb: str = "INSERT") -> None:
    """One row of an export, as it stood. Table and columns must be known ones; the values are anybody's."""
    import sqlite3

    marks, values = list[str](), list[object]()
    for value in row.values():
        if isinstance(value, str) and not value.isascii() and _has_surrogate(value):
            marks.append("CAST(? AS TEXT)")  # text that was no UTF-8 goes back as its bytes
            values.append(value.encode("utf-8", "surrogateescape"))
        elif isinstance(value, list | dict):
            raise BadInput(f"{where}: a column of {table} holds neither text nor a number")
        else:
            marks.append("?")
            values.append(value)
    try:
        store.connection.execute(f"{verb} INTO {table} ({', '.join(row)}) VALUES ({', '.join(marks)})", values)
    except (sqlite3.IntegrityError, OverflowError) as error:
        raise BadInput(f"{where}: this row of {table} cannot be stored: {error}") from None
    except sqlite3.Error as error:
        raise explain(error, store.path) from error
    except UnicodeEncodeError as error:
        raise BadInput(f"{where}: this text cannot be stored: {error}") from None


def _has_surrogate(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


@contextmanager
def bulk(store: Store) -> Iterator[None]:
    """Many rows inside one transaction: the triggers of the sums are away meanwhile, and the sums are made at the end.

    Schema changes are part of the transaction: a crash in the middle leaves everything as it was.
    """
    triggers = store.read("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%rollup_%'")
    if len(triggers) != len(rollup.ROLLUP):
        raise StoreError(
            f"the database {store.path} lacks triggers of its own", hint="import an export of it elsewhere"
        )
    for trigger in triggers:
        store.connection.execute(f"DROP TRIGGER {trigger['name']}")
    yield
    for statement in (*rollup.REFILL, *(trigger["sql"] for trigger in triggers)):
        store.connection.execute(statement)
