"""Opens the database: finds out what lies there, makes it, brings it up to date; nothing that is there gets lost.

WAL is asked for and read back: on some network file systems SQLite refuses it, silently or with "locking protocol".
Then the rollback journal is used. A home that cannot be written can still be looked at.
"""

from __future__ import annotations

import os
import sqlite3
import time

from dispatcher.errors import InternalError, StoreError
from dispatcher.store.database import (
    APPLICATION_ID,
    BUSY_SECONDS,
    REBUILD,
    SCHEMA_VERSION,
    Store,
    connect,
    error_code,
    explain,
    user_version,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_SMALLEST = 512  # bytes of the smallest page, and so of the smallest database
_SHOWN = 5  # traces that an error names


def open(path: Path | str, *, read_only: bool = False, rebuild: bool = False, vfs: str | None = None) -> Store:
    """Open the database at `path`, make it when there is none, bring it up to date when it is older.

    `read_only` refuses every change (for SQL that a person typed), and so needs nothing but to read. `rebuild` allows
    an empty database although traces of an earlier one lie beside it. `vfs` names another file layer of SQLite, such as
    `unix-dotfile` for a disk without working locks.
    """
    file = os.path.abspath(path)
    if read_only and not can_write(file):
        return _open_to_look(file, vfs)
    _prepare_folder(file, rebuild=rebuild)
    try:
        connection = connect(file, vfs)
        try:
            store = Store(connection, file, _journal_mode(connection))
            _bring_up_to_date(store)
            if read_only:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        if error_code(error) == sqlite3.SQLITE_NOTADB:
            raise _set_aside(file) from error
        raise explain(error, file) from error
    return store


def can_write(file: str) -> bool:
    """Whether this user may change the database: the file, and the files that SQLite makes beside it."""
    return all(os.access(path, os.W_OK) for path in (os.path.dirname(file), file) if os.path.lexists(path))


def _open_to_look(file: str, vfs: str | None) -> Store:
    """A database that cannot be written is read as it lies there; nothing is made beside it and nothing is upgraded.

    SQLite reads the write-ahead log only where its side files exist or can be made. Without a log, the file itself is
    all that there is, and nobody can be changing it.
    """
    try:
        if not os.path.getsize(file):
            raise StoreError(f"the database {file} is empty, and nothing can be written there", hint=REBUILD)
        try:
            store = _look(file, vfs, "mode=ro")
        except sqlite3.OperationalError:
            if os.path.exists(f"{file}-wal") and os.path.getsize(f"{file}-wal"):
                raise
            store = _look(file, vfs, "mode=ro&immutable=1")
    except OSError as error:
        raise StoreError(
            f"the database {file} cannot be read: {error.strerror}", hint="check the owner and the permissions"
        ) from None
    except sqlite3.Error as error:
        raise explain(error, file) from error
    version = user_version(store.connection)
    if version != SCHEMA_VERSION:
        store.close()
        raise StoreError(
            f"the database {file} has schema version {version}, not {SCHEMA_VERSION}, and nothing can be written there",
            hint="make its folder writable once, or copy the home to a place that is",
        )
    return store


def _look(file: str, vfs: str | None, how: str) -> Store:
    connection = connect(file, vfs, how)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read is what opens the file
        connection.execute("PRAGMA query_only = ON")
        return Store(connection, file, _pragma_journal(connection, "PRAGMA journal_mode"))
    except BaseException:
        connection.close()
        raise


def _prepare_folder(file: str, *, rebuild: bool) -> None:
    folder, name = os.path.split(file)
    try:
        os.makedirs(folder, exist_ok=True)
        octets = os.path.getsize(file) if os.path.exists(file) else 0  # of 0 bytes: lost, or this moment made
        if 0 < octets < _SMALLEST:  # SQLite would take it for an empty database
            raise _set_aside(file)
        if octets or rebuild:
            return
        traces = [entry for entry in os.listdir(folder) if _is_trace(folder, entry, name)]
    except OSError as error:
        raise StoreError(
            f"the folder {folder} cannot be used for the database: {error.strerror}",
            hint="check its owner and permissions, or choose another home with --home",
        ) from error
    if traces and not (os.path.exists(file) and os.path.getsize(file)):  # another first start was faster
        there = f"the database {file} is empty" if os.path.exists(file) else f"there is no database at {file}"
        shown = ", ".join(sorted(traces)[:_SHOWN]) + (", ..." if len(traces) > _SHOWN else "")
        raise StoreError(
            f"{there}, but {shown} of an earlier one",
            hint=f"{REBUILD}; to begin with an empty queue, move these files away",
        )


def _is_trace(folder: str, entry: str, name: str) -> bool:
    """A database that was set aside, the journal, or a task's folder with an attempt in it."""
    if entry.startswith(f"{name}.damaged-") or entry == f"{name}.journal.jsonl":
        return True
    if not entry.isdecimal():
        return False
    task = os.path.join(folder, entry)
    try:
        return any(os.path.exists(os.path.join(task, number, "attempt.json")) for number in os.listdir(task))
    except NotADirectoryError:
        return False


def _set_aside(file: str) -> StoreError:
    """A file that is no database is kept, out of the way; the next start must not begin an empty queue in its place."""
    aside = f"{file}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    for suffix in ("", "-wal", "-shm", "-journal"):
        try:
            os.rename(file + suffix, aside + suffix)
        except FileNotFoundError:
            continue  # no such side file, or another process was faster
        except OSError as error:
            return StoreError(
                f"{file} is not a SQLite database and cannot be moved aside: {error.strerror}", hint=REBUILD
            )
    return StoreError(f"{file} is not a SQLite database; it was moved to {aside}", hint=REBUILD)


def _journal_mode(connection: sqlite3.Connection) -> str:
    """WAL where the disk can do it. The mode is read first: switching needs the database for itself for a moment."""
    mode = _pragma_journal(connection, "PRAGMA journal_mode")
    if mode == "wal":
        return mode
    try:
        mode = _pragma_journal(connection, "PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error_code(error) & 0xFF not in (sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            raise
        mode = "refused"
    if mode not in ("wal", "delete"):
        mode = _pragma_journal(connection, "PRAGMA journal_mode = DELETE")
    return mode


def _pragma_journal(connection: sqlite3.Connection, pragma: str) -> str:
    """SQLite does not call its busy handler while it changes the mode: several first starts at once must try again."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return str(connection.execute(pragma).fetchone()[0])
        except sqlite3.OperationalError as error:
            if error_code(error) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _bring_up_to_date(store: Store) -> None:
    version = user_version(store.connection)
    if version and int(store.connection.execute("PRAGMA application_id").fetchone()[0]) != APPLICATION_ID:
        raise _foreign(store.path)
    if version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the database {store.path} has schema version {version}; "
            f"this dispatcher knows versions up to {SCHEMA_VERSION}",
            hint="upgrade dispatcher, or use the home of the older one with --home",
        )
    if version == 0:
        _create(store)
    else:
        from dispatcher.store import migrate

        migrate.upgrade(store.path)
    if user_version(store.connection) != SCHEMA_VERSION:
        raise InternalError(f"the database {store.path} is still of another version after it was brought up to date")


def _create(store: Store) -> None:
    from dispatcher.store import schema

    with store.write() as transaction:
        if user_version(store.connection):
            return  # another first start was faster
        if transaction.rows("SELECT 1 FROM sqlite_master LIMIT 1"):
            raise _foreign(store.path)
        for statement in schema.STATEMENTS:
            transaction.execute(statement)
        transaction.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        transaction.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _foreign(path: str) -> StoreError:
    return StoreError(
        f"{path} is a database of another program", hint="choose another home with --home; nothing was changed"
    )
