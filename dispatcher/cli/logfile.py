"""`log path`, `log backup`, `log metadata`: the database itself, for other programs."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from dispatcher.cli import home, idle, outfile
from dispatcher.cli.render import clean, note, out
from dispatcher.cli.wording import size
from dispatcher.errors import BadInput
from dispatcher.store import Store
from dispatcher.words import of


def run(what: str, file: Path | None, explicit: Path | None, *, listing: bool) -> None:
    """`listing`: options were written that choose attempts, or how they are listed."""
    if what in ("path", "backup", "metadata"):
        idle.refuse(f"with log {what}", {"an option of the listing": listing}, f"dispatcher log {what} [--home FOLDER]")
    if file is not None and what in ("path", "metadata"):
        raise BadInput(f"log {what} takes no {str(file)!r}", hint=f"dispatcher log {what}")
    with home.existing(explicit, reading=True) as store:
        if what == "path":
            return out(clean(store.path))
        if what == "backup":
            return back_up(store, file)
        if what == "metadata":
            return out(json.dumps(metadata(store), indent=2))
    raise BadInput(f"log knows no {what!r}", hint="path, backup FILE or metadata; filters are options, see log --help")


def back_up(store: Store, file: Path | None) -> None:
    """A whole copy while others write; the file appears when it is complete."""
    if file is None:
        raise BadInput("log backup needs the name of a file", hint="dispatcher log backup ~/dispatcher-backup.db")
    begun = told = time.monotonic()

    def tell(_status: int, left: int, pages: int) -> None:
        nonlocal told
        if sys.stderr.isatty() and time.monotonic() - told > 1:
            told = time.monotonic()
            note(of(pages - left, pages, "page"))

    with outfile.filled(file) as path:
        try:
            copy = sqlite3.connect(path)
            try:
                store.connection.backup(copy, pages=5000, progress=tell, sleep=0)
            finally:
                copy.close()
        except sqlite3.Error as error:
            raise BadInput(f"{file} cannot be written: {error}", hint="check the folder and its free space") from None
        written = path.stat().st_size
    note(f"{clean(str(file))}: {size(written)}, in {time.monotonic() - begun:.1f} s")


_QUERIES = {
    "failures_of_a_week": (
        "Failures of the last seven days",
        "SELECT started, candidate, outcome, outcome_reason, title FROM v_attempts "
        "WHERE outcome <> 'completed' AND started_at > unixepoch() - 7 * 86400 ORDER BY started_at DESC",
    ),
    "slowest": (
        "The longest attempts",
        "SELECT task_id, number, candidate, seconds, title FROM v_attempts ORDER BY seconds DESC LIMIT 50",
    ),
    "spend_by_month": (
        "Minutes and list price by month and credential",
        "SELECT month, credential, sum(attempts) AS attempts, round(sum(seconds) / 60, 1) AS minutes, "
        "round(sum(cost_usd), 2) AS list_price_usd FROM rollup GROUP BY month, credential ORDER BY month DESC",
    ),
    "waiting_for_review": (
        "Finished work that nobody has looked at",
        "SELECT id, title, branch, updated FROM v_tasks WHERE status = 'needs_review' ORDER BY updated_at",
    ),
}


def metadata(store: Store) -> dict[str, Any]:
    """For Datasette: what each table, view and column means, and queries to begin with.

    dispatcher log metadata > metadata.json && datasette "$(dispatcher log path)" -m metadata.json
    """
    from sqlmodel import SQLModel

    from dispatcher.store import tables

    described: dict[str, Any] = {}
    columns: dict[str, str] = {}
    for model in SQLModel.__subclasses__():
        if model.__module__ == tables.__name__:
            words = {name: field.description or "" for name, field in model.model_fields.items()}
            columns |= words
            described[str(model.__tablename__)] = {"description": (model.__doc__ or "").strip(), "columns": words}
    for row in store.read("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name"):
        names = [column["name"] for column in store.read(f"SELECT name FROM pragma_table_info('{row['name']}')")]
        described[row["name"]] = {"columns": {name: columns[name] for name in names if name in columns}}
    for row in store.read("SELECT name FROM sqlite_master WHERE type = 'table'"):
        name = row["name"]
        if "_search" in name or name in ("alembic_version", "sqlite_sequence", "task_count"):
            described[name] = {**described.get(name, {}), "hidden": True}
    return {
        "title": "Log of dispatcher",
        "description": "Tasks and attempts. Times are UTC epoch seconds; the views also have them as text.",
        "databases": {
            Path(store.path).stem: {
                "tables": described,
                "queries": {name: {"title": title, "sql": sql} for name, (title, sql) in _QUERIES.items()},
            }
        },
    }
