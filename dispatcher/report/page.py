"""A report as one HTML page that needs nothing else: no network, no other file, no JavaScript for what it says.

Charts are inline SVG without words of their own: their numbers stand in the tables below them. A content security
policy in the page forbids every request, so that a title from a brief can load nothing even if escaping had a hole.
The script at the end only makes tables sortable and the list of tasks searchable; it adds its own buttons.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from dispatcher.report.looks import SCRIPT, STYLE
from dispatcher.report.shown import is_number, money, shown
from dispatcher.report.values import Column, Report, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dispatcher.report.values import Row

_PARTS = (
    ("completed", "completed", "done"),
    ("quota_events", "quota", "quota"),
    ("failed", "other failures", "failed"),
)
_TASK_COLUMNS = (
    Column("id", "task"),
    Column("title", "title", "text"),
    Column("status", "status", "text"),
    Column("difficulty", "difficulty", "text"),
    Column("model", "last model", "text"),
    Column("outcome", "last outcome", "text"),
    Column("attempts", "attempts"),
    Column("minutes", "minutes", "minutes"),
    Column("cost_usd", "price", "usd"),
    Column("created_at", "added", "text"),
)


def render(report: Report, period: str, date: Callable[[float], str]) -> str:
    """The page. `period` says in words what it covers, `date` writes an epoch time for people."""
    body = [
        f"<header><h1>Report of dispatcher</h1><p>{escape(period)}</p></header>\n<main>",
        _tiles(report.names["summary"]),
        _timeline(report.names["time"]),
        _bars(report.names["main"], report.by),
        *(_section(table) for table in report.tables[1:] if table.rows),
        _task_list(report, date),
        f"</main>\n<footer><p>Made {escape(date(report.made_at))}.</p></footer>",
    ]
    return _FRAME.format(style=STYLE, body="\n".join(part for part in body if part), script=SCRIPT)


_FRAME = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>Report of dispatcher</title>
<style>{style}</style>
</head>
<body>
{body}
<script>{script}</script>
</body>
</html>
"""


# --- numbers and charts --------------------------------------------------------------------------------------------


def _tiles(summary: Table) -> str:
    """The summary as a description list: a number, what it is, what it is out of."""
    tiles = "".join(
        f"<div><dt>{escape(row['what'])}</dt><dd><b>{_number(row)}</b> <small>{escape(row['note'])}</small></dd></div>"
        for row in summary.rows
    )
    return f'<section aria-label="Summary"><dl class="tiles">{tiles}</dl></section>'


def _number(row: Row) -> str:
    if row["number"] is None:
        return "unknown"
    return money(row["number"]) if row["key"].endswith("_usd") else f"{row['number']:,.0f}"


def _legend() -> str:
    return '<p class="legend">' + "".join(f'<span class="{css}">{word}</span> ' for _, word, css in _PARTS) + "</p>"


def _timeline(table: Table) -> str:
    """Stacked columns, one for each period; they share the width, however many there are."""
    if not table.rows:
        return ""
    most = max(row["attempts"] for row in table.rows) or 1
    step, height = 10.0, 100.0
    shapes = "".join(_pillar(row, place * step, step, height / most, height) for place, row in enumerate(table.rows))
    first, last = table.rows[0]["period"], table.rows[-1]["period"]
    said = f"Attempts {table.title.lower()}, {first} to {last}; at most {most:,}. The numbers are in the table below."
    return (
        f'<section class="chart"><h2>Attempts {escape(table.title.lower())}</h2>{_legend()}'
        f'<p class="scale">highest: {most:,}</p>'
        f'<svg role="img" aria-label="{escape(said)}" viewBox="0 0 {len(table.rows) * step:g} {height:g}" '
        f'preserveAspectRatio="none">{shapes}</svg>'
        f'<p class="ends"><span>{escape(first)}</span><span>{escape(last)}</span></p></section>'
    )


def _pillar(row: Row, left: float, step: float, scale: float, bottom: float) -> str:
    """One period: its parts upon each other, with the numbers as a tooltip."""
    words = f"{row['period']}: " + ", ".join(f"{row[key]} {word}" for key, word, _ in _PARTS)
    pieces, x, width = [], left + step * 0.1, step * 0.8
    for key, _, css in _PARTS:
        tall = row[key] * scale
        bottom -= tall
        if row[key]:
            pieces.append(f'<rect class="{css}" x="{x:g}" y="{bottom:.2f}" width="{width:g}" height="{tall:.2f}"/>')
    return f"<g><title>{escape(words)}</title>{''.join(pieces)}</g>"


def _bars(table: Table, by: str) -> str:
    """One stacked bar for each group, all on one scale."""
    if not table.rows:
        return ""
    most = max(row["attempts"] for row in table.rows) or 1
    items = []
    for row in table.rows:
        left, pieces = 0.0, []
        for key, _, css in _PARTS:
            wide = row[key] / most * 100
            if row[key]:
                pieces.append(f'<rect class="{css}" x="{left:.2f}" width="{wide:.2f}" height="10"/>')
            left += wide
        words = ", ".join(f"{row[key]:,} {word}" for key, word, _ in _PARTS)
        items.append(
            f'<li><span class="name">{escape(str(row["name"]))}</span> <span class="count">{words}</span>'
            f'<svg aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none">{"".join(pieces)}</svg></li>'
        )
    return (
        f'<section class="chart"><h2>Attempts by {escape(by)}</h2>{_legend()}<ul class="bars">{"".join(items)}</ul>'
        "</section>"
    )


# --- tables --------------------------------------------------------------------------------------------------------


def _section(table: Table) -> str:
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    rows = [[_plain_cell(row.get(column.key), column) for column in table.columns] for row in table.rows]
    shown_rows = _table(table.columns, rows, table.name)
    return f'<section><h2 id="{table.name}">{escape(table.title)}</h2>{note}{shown_rows}</section>'


def _table(columns: tuple[Column, ...], rows: list[list[str]], label: str) -> str:
    """A table in a region of its own that scrolls sideways (also by keyboard) when the screen is narrow."""
    heads = "".join(f'<th scope="col"{_side(column)}>{escape(column.title)}</th>' for column in columns)
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-labelledby="{label}"><table aria-labelledby="{label}">'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _side(column: Column) -> str:
    return ' class="n"' if is_number(column) else ' class="w"' if column.key == "title" else ""


def _cell(value: Any, column: Column, text: str) -> str:
    """`data-v` is what the script sorts by, where the text itself would sort wrongly."""
    raw = f' data-v="{value}"' if isinstance(value, int | float) else ""
    return f"<td{_side(column)}{raw}>{escape(text)}</td>"


def _plain_cell(value: Any, column: Column) -> str:
    return _cell(value, column, shown(value, column))


def _task_list(report: Report, date: Callable[[float], str]) -> str:
    if not report.tasks:
        return '<section><h2 id="list">Tasks</h2><p>No task was added in this period.</p></section>'
    rows = []
    for task in report.tasks:
        minutes = None if task["seconds"] is None else round(task["seconds"] / 60, 2)
        values = {**task, "minutes": minutes}
        cells = [
            _cell(task["created_at"], column, date(task["created_at"]))
            if column.key == "created_at"
            else _plain_cell(values[column.key], column)
            for column in _TASK_COLUMNS
        ]
        rows.append(cells)
    more = f" {report.left_out:,} older ones are not shown." if report.left_out else ""
    return (
        f'<section id="tasks-list"><h2 id="list">Tasks</h2><p>{len(rows):,} of them, newest first.{more}</p>'
        f"{_table(_TASK_COLUMNS, rows, 'list')}</section>"
    )
