"""The schema exists three times (SQLModel, plain text, migrations) and must be one."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlmodel import SQLModel

from dispatcher import store
from dispatcher.store import migrate, rows, tables
from dispatcher.store.database import SCHEMA_VERSION, Store, connect
from dispatcher.task import Attempt, Task
from tests.store.conftest import tasks_with

OURS = {str(table.name) for table in SQLModel.metadata.sorted_tables}


def shape(connection: sqlite3.Connection, table: str) -> dict[str, Any]:
    """What a table is, however its SQL was written: columns, keys, references, indexes with order and condition."""

    def pragma(name: str, argument: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(f"PRAGMA {name}({argument})")]

    indexes = {}
    for _, name, unique, origin, partial in pragma("index_list", table):
        where = None
        if partial:
            text = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
            where = text.split(" WHERE ")[1]
        columns = [(row[2], row[3]) for row in pragma("index_xinfo", name) if row[5]]
        indexes[name if origin == "c" else origin] = (unique, columns, where)
    sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    return {
        "columns": pragma("table_info", table),
        "references": sorted(row[2:] for row in pragma("foreign_key_list", table)),
        "indexes": indexes,
        "autoincrement": "AUTOINCREMENT" in sql,
        "rowid": "WITHOUT ROWID" not in sql,
    }


def the_rest(connection: sqlite3.Connection) -> dict[str, str]:
    """Views, triggers and virtual tables as text; the tables of the metadata are compared by shape."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('view', 'trigger', 'table')")
    return {name: " ".join(sql.split()) for name, sql in found if name not in {*OURS, "alembic_version"}}


@pytest.fixture
def migrated(tmp_path: Path) -> Store:
    migrate.upgrade(str(tmp_path / "migrated.db"))
    return store.open(tmp_path / "migrated.db")


def test_plain_text_equals_the_metadata(db: Store) -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        SQLModel.metadata.create_all(connection)
        raw = connection.connection.driver_connection
        assert raw is not None
        assert {name: shape(raw, name) for name in OURS} == {name: shape(db.connection, name) for name in OURS}
    engine.dispose()


def test_plain_text_equals_what_the_migrations_build(db: Store, migrated: Store) -> None:
    with migrated:
        for table in (*OURS, "alembic_version"):
            assert shape(migrated.connection, table) == shape(db.connection, table), table
        assert the_rest(migrated.connection) == the_rest(db.connection)
        stamped = "SELECT version_num FROM alembic_version"
        assert [tuple(row) for row in migrated.read(stamped)] == [tuple(row) for row in db.read(stamped)]
        for pragma in ("user_version", "application_id"):
            assert tuple(migrated.read(f"PRAGMA {pragma}")[0]) == tuple(db.read(f"PRAGMA {pragma}")[0])


def test_the_newest_migration_has_the_number_of_the_schema() -> None:
    numbers = sorted(int(file.name[1:5]) for file in (migrate.SCRIPTS / "versions").glob("v*.py"))
    assert numbers == list(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize(("value", "table"), [(Task, "task"), (Attempt, "attempt")])
def test_every_field_has_a_column(db: Store, value: type, table: str) -> None:
    columns = {row["name"] for row in db.read(f"PRAGMA table_info({table})")}
    renamed = {"next": {"next_step"}, "usage": set(rows.USAGE_COLUMNS.values())}
    for field in dataclasses.fields(value):
        assert renamed.get(field.name, {field.name}) <= columns


def test_every_table_and_column_is_described() -> None:
    for model in SQLModel.__subclasses__():
        if model.__module__ == tables.__name__:
            assert model.__doc__
            for name, field in model.model_fields.items():
                assert field.description, f"{model.__name__}.{name}"


def test_views_can_be_read_and_not_written(db: Store) -> None:
    views = [row["name"] for row in db.read("SELECT name FROM sqlite_master WHERE type = 'view'")]
    assert {
        "v_tasks",
        "v_attempts",
        "v_events",
        "v_holds",
        "v_checks",
        "v_reviews",
        "v_approvals",
        "v_measures",
    } == set(views)
    for view in views:
        assert db.read(f"SELECT * FROM {view}") == []
    with pytest.raises(sqlite3.OperationalError, match="cannot modify v_tasks because it is a view"):
        db.connection.execute("DELETE FROM v_tasks")


def test_a_migration_keeps_rows_and_finds_their_words(path: Path) -> None:
    old_database(path)
    with store.open(path) as found:
        from dispatcher.store import queue

        assert queue.get(found, 1).title == "Old task"
        assert tasks_with(found, "cornflower") == [1]
        assert queue.counts(found) == {queue.get(found, 1).status: 1}
        assert found.read("PRAGMA foreign_key_check") == []
    with sqlite3.connect(f"{path}.v1.backup") as backup:
        assert backup.execute("SELECT title FROM task").fetchall() == [("Old task",)]
        assert backup.execute("PRAGMA user_version").fetchone() == (1,)
    backup.close()


def test_a_migration_that_fails_leaves_the_old_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_database(path)
    monkeypatch.setattr(migrate, "_check_references", _break)
    with pytest.raises(ZeroDivisionError):
        store.open(path)
    connection = connect(str(path))
    assert connection.execute("PRAGMA user_version").fetchone()[0] == 1
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'task_search'").fetchone()[0] == 0
    connection.close()
    monkeypatch.undo()
    store.open(path).close()


def _break(*_: object) -> None:
    raise ZeroDivisionError


def old_database(path: Path) -> None:
    """A database of version 1 with one task, as the program of that time left it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    migrate.upgrade(str(path), 1)
    connection = connect(str(path))
    values = {
        "title": "Old task",
        "brief_text": "Paint it cornflower blue",
        "brief_digest": "d",
        "difficulty": "easy",
        "difficulty_reason": "",
        "expect": "commit",
        "priority": 0,
        "status": "queued",
        "status_reason": "added",
        "created_at": 1.0,
        "updated_at": 1.0,
        "source": "terminal",
        "flags": "[]",
        "next_step": "{}",
        "counters": "{}",
        "notes": "",
    }
    marks = ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO task ({', '.join(values)}) VALUES ({marks})", values)
    connection.close()
