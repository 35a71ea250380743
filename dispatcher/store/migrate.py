"""Bring an older database up to date. Imported only when one is older: this is where Alembic is loaded.

Ten starts at once on an old schema: each waits for the write lock, looks at the version again and finds the work done
by the first. A copy of the old file is made under that lock before anything changes; all changes and the new version
number are one transaction, so a kill in the middle leaves the old schema.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.errors import StoreError
from dispatcher.store.database import APPLICATION_ID, SCHEMA_VERSION, connect, explain, user_version

if TYPE_CHECKING:
    from sqlalchemy import Connection

SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(path: str, target: int = SCHEMA_VERSION) -> None:
    """Make the database at `path` one of version `target`; nothing happens when it is that already."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import StaticPool

    driver = connect(path)
    driver.row_factory = None  # SQLAlchemy expects plain tuples
    engine = create_engine("sqlite://", creator=lambda: driver, poolclass=StaticPool)
    try:
        driver.execute("PRAGMA foreign_keys = OFF")  # a table that is rebuilt must not take its children along
        with engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            version = user_version(driver)
            if version < target:
                _back_up(path, version)
                _migrate(connection, target)
                _check_references(connection, path)
                connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.exec_driver_sql(f"PRAGMA user_version = {target}")
    except DBAPIError as error:
        raise explain(error.orig, path) if isinstance(error.orig, sqlite3.Error) else error from error
    finally:
        engine.dispose()
        driver.close()


def _migrate(connection: Connection, target: int) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, f"{target:04}")


def _back_up(path: str, version: int) -> None:
    """A whole copy beside the database; the write lock is held, so nothing is missing."""
    if version == 0:
        return
    unfinished = f"{path}.v{version}.backup.part"
    source, copy = connect(path), sqlite3.connect(unfinished)
    try:
        source.backup(copy)
    finally:
        copy.close()
        source.close()
    os.replace(unfinished, f"{path}.v{version}.backup")


def _check_references(connection: Connection, path: str) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if broken is not None:
        raise StoreError(
            f"the database {path} cannot be brought up to date: table {broken[0]} refers to rows that do not exist",
            hint="nothing was changed; please report this",
        )
