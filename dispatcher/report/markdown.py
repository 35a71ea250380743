"""A report as Markdown, for a pull request or a post: the same tables, nothing else."""

from __future__ import annotations

from dispatcher.report.shown import is_number, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dispatcher.report.values import Table


def render(tables: Iterable[Table], period: str) -> str:
    """The whole text. `period` says in words what the report covers."""
    parts = [f"# Report of dispatcher\n\n{_text(period)}\n", *(_table(table) for table in tables if table.rows)]
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "| " + " | ".join(_text(column.title) for column in table.columns) + " |"
    rule = "|" + "|".join("---:" if is_number(column) else "---" for column in table.columns) + "|"
    body = [
        "| " + " | ".join(_text(shown(row.get(column.key), column)) for column in table.columns) + " |"
        for row in table.rows
    ]
    note = f"\n{_text(table.note)}\n" if table.note else ""
    return "\n".join([f"## {_text(table.title)}\n", head, rule, *body]) + "\n" + note


_SPECIAL = {character: "\\" + character for character in "\\`*_[]<>|#"}


def _text(text: str) -> str:
    """What a model or a person wrote never becomes markup."""
    return "".join(_SPECIAL.get(character, character) for character in text.replace("\n", " "))
