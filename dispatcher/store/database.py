"""One connection to the database: it keeps its promises (one writer at a time, durable) and says what is wrong.

Every write is one short `BEGIN IMMEDIATE`: a deferred transaction that turns into a write fails at once with "database
is locked" when another process wrote in between; an immediate one waits its turn (`busy_timeout`). Reads fetch all
rows before they return, so a pager that stays open never holds a snapshot. Every file handle of SQLite is
close-on-exec, so a worker that lives on cannot hold the database.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import RLock  # `threading` itself is not needed, and costs start-up time
from collections.abc import Mapping, Sequence

from dispatcher.errors import InternalError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    Values = Sequence[object] | Mapping[str, object]

SCHEMA_VERSION = 8  # PRAGMA user_version; equals the number of the newest migration
APPLICATION_ID = 0x64737063  # "dspc" in the file header: tells our database from any other
BUSY_SECONDS = 60.0
REBUILD = "`dispatcher import --rebuild` makes it again from the journal and the attempt folders"


class Store:
    """One connection. May be used from several threads: one statement or one transaction at a time."""

    def __init__(self, connection: sqlite3.Connection, path: str, journal_mode: str) -> None:
        self.connection = connection
        self.path = path
        self.journal_mode = journal_mode
        self.lock = RLock()
        self.depth = 0
        self.pending: list[tuple[str, dict[str, object]]] = []  # journal lines of the open transaction
        self._synchronous = "FULL"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        with self.lock:
            self.connection.close()

    def read(self, sql: str, values: Values = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        with self.lock:
            try:
                return self._rows(sql, values)
            except sqlite3.Error as error:
                raise explain(error, self.path) from error

    def _rows(self, sql: str, values: Values) -> list[sqlite3.Row]:
        """Text that is no UTF-8 (another program wrote it) is read all the same, its bytes as lone surrogates."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            if "decode" not in str(error) or self.connection.text_factory is not str:
                raise
        self.connection.text_factory = _any_text
        return self.connection.execute(sql, values).fetchall()

    def first(self, sql: str, values: Values = ()) -> sqlite3.Row | None:
        rows = self.read(sql, values)
        return rows[0] if rows else None

    def write(self, *, durable: bool = True) -> Transaction:
        """`with store.write() as transaction:` one BEGIN IMMEDIATE ... COMMIT; rolled back on any exception.

        A `write` inside a `write` of the same thread joins it, so that "finish this one and claim the next" costs one
        commit. `durable=False` skips the wait for the disk; use it only for what may be lost in a power cut.
        """
        return Transaction(self, durable)

    def get_meta(self, key: str) -> str | None:
        row = self.first("SELECT value FROM meta WHERE key = ?", (key,))
        return None if row is None else str(row["value"])

    def set_meta(self, key: str, value: str) -> None:
        with self.write(durable=False) as transaction:
            transaction.execute(
                "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, value),
            )

    def synchronous(self, level: str) -> None:
        """Set how far a commit waits for the disk. Only outside a transaction; the rollback journal stays FULL."""
        if level != self._synchronous and self.journal_mode == "wal":
            self.connection.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level


class Transaction:
    """The write in progress. Statements that fail raise StoreError and undo the whole transaction."""

    def __init__(self, store: Store, durable: bool) -> None:
        self.store = store
        self.durable = durable

    def __enter__(self) -> Transaction:
        store = self.store
        store.lock.acquire()
        if store.depth == 0:
            try:
                store.synchronous("FULL" if self.durable else "NORMAL")
                store.connection.execute("BEGIN IMMEDIATE")
            except BaseException as error:
                store.lock.release()
                if isinstance(error, sqlite3.Error):
                    raise explain(error, store.path) from error
                raise
        store.depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        store = self.store
        store.depth -= 1
        try:
            if store.depth == 0:
                self._end(commit=kind is None)
        finally:
            store.lock.release()

    def _end(self, *, commit: bool) -> None:
        store = self.store
        lines, store.pending = store.pending, []
        try:
            if commit:
                store.connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise explain(error, store.path) from error
        finally:
            if store.connection.in_transaction:  # SQLite itself has already rolled back when the disk was full
                store.connection.execute("ROLLBACK")
        if commit and lines:
            from dispatcher.store import journal

            journal.append(journal.path_of(store.path), lines)

    def execute(self, sql: str, values: Values = ()) -> sqlite3.Cursor:
        try:
            return self.store.connection.execute(sql, values)
        except sqlite3.Error as error:
            raise explain(error, self.store.path) from error

    def rows(self, sql: str, values: Values = ()) -> list[sqlite3.Row]:
        """All rows of a query; those of a change that returns rows, too."""
        if sql.lstrip()[:6].upper() == "SELECT":
            return self.store.read(sql, values)
        return self.execute(sql, values).fetchall()

    def insert(self, table: str, values: Mapping[str, object]) -> int:
        """Insert one row; the columns are the keys, which come from our own code only. Returns its id."""
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        return self.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values).lastrowid or 0

    def change(self, table: str, row: int, values: Mapping[str, object], condition: str = "") -> int:
        """Update one row by id; returns how many rows that was."""
        if not values:
            return 0
        setting = ", ".join(f"{name} = :{name}" for name in values)
        sql = f"UPDATE {table} SET {setting} WHERE id = :id_{condition}"
        return self.execute(sql, {**values, "id_": row}).rowcount

    def journal(self, kind: str, data: dict[str, object]) -> None:
        """A line for the journal beside the database, written when the transaction has been committed."""
        self.store.pending.append((kind, data))


def _any_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def connect(file: str, vfs: str | None = None, how: str = "") -> sqlite3.Connection:
    """A bare connection with our settings: autocommit, rows by name, foreign keys."""
    options = "&".join(filter(None, (f"vfs={vfs}" if vfs else "", how)))
    uri = (
        "file:" + file.replace("%", "%25").replace("?", "%3f").replace("#", "%23") + (f"?{options}" if options else "")
    )
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def error_code(error: sqlite3.Error) -> int:
    """The extended result code; 0 for errors that Python's module raises by itself."""
    return getattr(error, "sqlite_errorcode", 0)


_WORDS: Mapping[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space; results that wait in attempt folders are read again"),
    sqlite3.SQLITE_IOERR: ("the disk reports an error", "check the disk (dmesg) and its free space"),
    sqlite3.SQLITE_READONLY: ("it cannot be written", "check the owner and the permissions of the file and its folder"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check the owner and the permissions of the file and its folder"),
    sqlite3.SQLITE_PERM: ("it cannot be written", "check the owner and the permissions of the file and its folder"),
    sqlite3.SQLITE_BUSY: ("another program keeps it locked", "look for a program that has it open (lsof)"),
    sqlite3.SQLITE_PROTOCOL: (
        "the file system of its folder does not lock files properly",
        "put the home on a local disk; SQLite cannot be shared over a network file system",
    ),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", REBUILD),
    sqlite3.SQLITE_NOTADB: ("it is not a SQLite database", REBUILD),
}


def explain(error: sqlite3.Error, path: str) -> StoreError | InternalError:
    """The clear line for an error of SQLite. What is not in the table is our own fault."""
    code = error_code(error) & 0xFF
    if code == sqlite3.SQLITE_IOERR and _is_full(os.path.dirname(path)):
        code = sqlite3.SQLITE_FULL  # the file of shared memory could not grow
    words = _WORDS.get(code)
    if words is None:
        return InternalError(f"database {path}: {error}")
    return StoreError(f"the database {path} cannot be used: {words[0]} ({error})", hint=words[1])


def _is_full(folder: str) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < 64 * 1024
