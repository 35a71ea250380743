"""`report`: reads the sums, lets `dispatcher.report` make tables of them, prints these in the form asked for."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from functools import partial

from dispatcher import report as reports
from dispatcher.cli import home, idle
from dispatcher.cli.log import moment, repository_path
from dispatcher.cli.render import Column, clean, csv_out, json_out, note, on_terminal, one_form, out
from dispatcher.cli.render import table as print_table
from dispatcher.cli.wording import clock
from dispatcher.errors import BadInput
from dispatcher.report import Report, shown
from dispatcher.report.values import Table
from dispatcher.store import Store, figures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

_DAY = 86400.0
_STEPS = 1_000_000  # of SQLite's machine between two looks at the clock

# What a narrow terminal does without, first the first; of tables whose columns are not themselves the subject.
_MISSED = (
    "tokens_reasoning", "tokens_cache_write", "tokens_cache_read", "nearly_lost", "false_done", "saved", "billed",
    "priced", "rejected", "not_delivered", "failed", "completed", "quota_events", "tokens_input", "tokens_output",
    "tasks", "billed_usd", "minutes_per_accepted", "minutes", "list_price_usd",
)  # fmt: skip
TASKS = 5000  # that the page lists, if nothing else is said
_ROOMY = 150  # places that the widest table takes
_KEEP_ALL = ("outcomes", "tasks", "summary")


def show_report(
    explicit: Path | None,
    *,
    since: str | None,
    until: str | None,
    by: str,
    unit: str | None,
    difficulty: str | None,
    candidate: str | None,
    model: str | None,
    harness: str | None,
    credential: str | None,
    repository: str | None,
    batch: str | None,
    table: str | None,
    html: Path | None,
    tasks: int,
    markdown: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    one_form(as_json, as_csv, markdown, html is not None)
    if html is not None or as_json:
        idle.refuse(f"with {'--json' if as_json else '--html'}", {"--table": table is not None}, "it has all tables")
    if html is None:
        idle.refuse("without --html", {"--tasks": tasks != TASKS}, "only the page lists tasks; see dispatcher log")
    now = time.time()
    span = moment("since", since), moment("until", until)
    named = {
        "difficulty": difficulty,
        "candidate": candidate,
        "model": model,
        "harness": harness,
        "credential": credential,
        "repository": None if repository is None else repository_path(repository),
        "batch": batch,
    }
    given = {name: value for name, value in named.items() if value is not None}
    with home.existing(explicit, reading=True) as store, _patience(store):
        found = _made(store, span, given, by=by, unit=unit or _unit(span, now), now=now, tasks=tasks if html else 0)
    if html is not None:
        return _write_page(found, html)
    if as_json:
        return json_out(_document(found))
    if as_csv:
        return _print_csv(found, table or "main")
    if markdown:
        from dispatcher.report.markdown import render

        return out(render(_chosen(found, table), _period(found)))
    return _print(found, _chosen(found, table))


@contextmanager
def _patience(store: Store) -> Iterator[None]:
    """Most reports come from sums that are kept. One that reads attempt by attempt says so when it takes long."""
    begun = time.monotonic()

    def tick() -> int:
        nonlocal begun
        if time.monotonic() - begun > 1:
            begun = float("inf")
            note("no sums are kept of this mix of filters: its attempts are read one by one ...")
        return 0

    store.connection.set_progress_handler(tick if sys.stderr.isatty() else None, _STEPS)
    try:
        yield
    finally:
        store.connection.set_progress_handler(None, 0)


def _made(
    store: Store,
    span: tuple[float | None, float | None],
    filters: dict[str, str],
    *,
    by: str,
    unit: str,
    now: float,
    tasks: int,
) -> Report:
    if by not in reports.GROUPS:
        raise BadInput(f"a report cannot be grouped by {by!r}", hint="one of " + ", ".join(reports.GROUPS))
    rolled = by in figures.KEYS
    return reports.build(
        _safe(figures.attempts(store, span, filters)),
        _safe(figures.over_time(store, unit, span, filters)),
        _safe(figures.tasks(store, span, filters)),
        made_at=now,
        by=by,
        unit=unit,
        since=span[0],
        until=span[1],
        filters={name: clean(value) for name, value in filters.items()},
        groups=None if rolled else _safe(figures.grouped(store, by, span, filters)),
        newest=_safe(figures.newest_tasks(store, tasks, span, filters)) if tasks else (),
    )


def _safe(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Control characters are made visible before any form of a report sees them; megabytes of a title are cut."""
    return [
        {key: clean(value[:500]) if isinstance(value, str) else value for key, value in row.items()} for row in rows
    ]


def _unit(span: tuple[float | None, float | None], now: float) -> str:
    """Days for a month, weeks for a quarter, months beyond."""
    if span[0] is None:
        return "month"
    days = ((span[1] or now) - span[0]) / _DAY
    return "day" if days <= 32 else "week" if days <= 100 else "month"


def _chosen(found: Report, name: str | None) -> tuple[Table, ...]:
    return found.tables if name is None else (_named(found, name),)


def _named(found: Report, name: str) -> Table:
    if name not in found.names:
        raise BadInput(f"a report has no table {name!r}", hint="one of " + ", ".join(found.names))
    return found.names[name]


def _period(found: Report) -> str:
    """In words: `2026-11-01 00:00 to now; candidate sonnet`."""
    start = "all time" if found.since is None else f"from {clock(found.since)}"
    end = "" if found.until is None else f" to {clock(found.until)}"
    narrow = "".join(f"; {name} {value}" for name, value in found.filters.items())
    return f"Attempts that began in this period: {start}{end}{narrow}."


def _print(found: Report, tables: tuple[Table, ...]) -> None:
    out(_period(found))
    for table in tables:
        if table.rows:
            out()
            _print_table(table)
    if not on_terminal():
        return
    import shutil  # and with it the compressors, which a pipe needs not wait for

    if shutil.get_terminal_size().columns < _ROOMY:
        note("a wider terminal shows more columns; --csv --table NAME, --json and --html have all")


def _print_table(table: Table) -> None:
    columns = [_terminal_column(column, table) for column in table.columns]
    print_table(table.rows, columns, title=table.title)


def _terminal_column(column: reports.Column, table: Table) -> Column:
    optional = column.key in _MISSED and table.name not in _KEEP_ALL
    least = len(_MISSED) - _MISSED.index(column.key) if optional else 0
    number, wide = shown.is_number(column), column.key == "note"
    text = partial(shown.shown, column=column)
    return Column(column.key, column.title, text, right=number, wide=wide, least=least)


def _print_csv(found: Report, name: str) -> None:
    table = _named(found, name)
    keys = list(table.rows[0]) if table.rows else [column.key for column in table.columns]
    csv_out(table.rows, [Column(key, key) for key in keys])


def _document(found: Report) -> dict[str, Any]:
    return {
        "made_at": found.made_at,
        "since": found.since,
        "until": found.until,
        "filters": found.filters,
        "by": found.by,
        "unit": found.unit,
        "tables": {name: [dict(row) for row in table.rows] for name, table in found.names.items()},
    }


def _write_page(found: Report, file: Path) -> None:
    from dispatcher.cli import outfile
    from dispatcher.report.page import render

    text = render(found, _period(found), clock)
    with outfile.opened(file, replaces=True) as page:
        page.write(text.encode("utf-8", "replace"))
    if not outfile.is_stdout(file):
        note(f"{clean(str(file))}: {len(text) / 1024:.0f} KiB, open it in any browser")
