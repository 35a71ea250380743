"""How things are printed: a table on a terminal, plain columns in a pipe, JSON, CSV. The only place that knows Rich.

Data goes to stdout, messages to stderr. Whatever a brief, a worker or a repository wrote is data: its control
characters are made visible before a terminal sees them (an escape sequence could rewrite the screen, a direction mark
could turn a command around). Rich is imported only when a table goes to a terminal.
"""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal

    Form = Literal["auto", "json", "csv"]

_DIRECTION = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[\x00-\x1f\x7f-\x9f{_DIRECTION}\u2028\u2029\ufeff\ud800-\udfff]")
_UNSAFE_IN_BLOCK = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_DIRECTION}\u2028\u2029\ufeff\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e"}


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def clean(text: str) -> str:
    """One line that no terminal obeys: every control character is written out."""
    return _UNSAFE.sub(_visible, text)


def clean_block(text: str) -> str:
    """The same for text of many lines: line ends and tabs stay."""
    return _UNSAFE_IN_BLOCK.sub(_visible, text.replace("\r\n", "\n"))


_LONGEST = 300  # characters of one cell: a title of a megabyte must not push all others off the screen


class Column:
    """One column: the key in the row and in JSON, its title, how a value is shown (None: as `none`), its layout.

    A terminal narrower than `least` does without the column, and one without room for all does so with the highest
    `least` first; pipes always get it. A `wide` one takes the room left.
    """

    __slots__ = ("key", "least", "none", "right", "show", "title", "wide")

    def __init__(
        self,
        key: str,
        title: str,
        show: Callable[[Any], str] = str,
        *,
        none: str = "",
        right: bool = False,
        wide: bool = False,
        least: int = 0,
    ) -> None:
        self.key = key
        self.title = title
        self.show = show
        self.none = none
        self.right = right
        self.wide = wide
        self.least = least

    def text(self, row: Mapping[str, Any]) -> str:
        value = row.get(self.key)
        if value is None:
            return self.none
        text = self.show(value)
        return clean(text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ...")


def form(*, as_json: bool = False, as_csv: bool = False) -> Form:
    """The form that the options ask for."""
    one_form(as_json, as_csv)
    return "json" if as_json else "csv" if as_csv else "auto"


def one_form(*asked: bool) -> None:
    """Two forms at once are a mistake, of which one would be passed over without a word."""
    if sum(asked) > 1:
        from dispatcher.errors import BadInput

        raise BadInput(
            "the output can have one form only", hint="choose one of --json, --jsonl, --csv, --markdown, --html"
        )


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    form: Form = "auto",
    title: str = "",
    empty: str = "",
) -> None:
    """Print rows. JSON and CSV hold the raw values of all keys and columns; `empty` is said when there are no rows."""
    if form == "json":
        return json_out(list(rows))
    if form == "csv":
        return csv_out(rows, columns)
    if not rows:
        if empty:
            out(empty)
        return None
    if on_terminal():
        return _rich_table(rows, columns, title)
    if title:
        out(title)
    return _plain(rows, columns)


def json_out(value: object) -> None:
    """One JSON document. Only ASCII goes out, so that every terminal, locale and lone surrogate survives it."""
    import json

    out(json.dumps(value, indent=2, default=_to_json))


def jsonl_out(rows: Iterable[object]) -> None:
    """One JSON document a line, written as they come."""
    import json

    for row in rows:
        out(json.dumps(row, default=_to_json))


def out(line: str = "") -> None:
    """One line of data. The caller has cleaned what it did not write itself."""
    sys.stdout.write(line + "\n")


def note(line: str) -> None:
    """One line for the person, not for a pipe."""
    sys.stderr.write(line + "\n")


def on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _to_json(value: object) -> object:
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(value) if isinstance(value, (set, frozenset)) else list(value)
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if hasattr(value, "items"):
        return dict(value.items())
    return str(value)


def _plain(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """Columns padded to their widest value, two blanks between; no line is cut, no line is wrapped."""
    lines = [[column.title for column in columns], *([column.text(row) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ]
        out("  ".join(cells).rstrip())


def csv_out(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """The raw values of the columns; unknown is empty. Rows are written as they come."""
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([column.key for column in columns])
    for row in rows:
        writer.writerow(["" if (value := row.get(column.key)) is None else clean(str(value)) for column in columns])


_LEAST_WIDE = 12
_GAP = 3  # between two columns


def _rich_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)  # it obeys NO_COLOR by itself
    fitting = _fitting(rows, columns, console.width)
    if fitting is None:
        return _sideways(console, rows, columns, title)
    shown = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, show_edge=False)
    for column, width in fitting:
        shown.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            ratio=1 if column.wide else None,
            min_width=width,
            max_width=None if column.wide else width,
        )
    for row in rows:
        shown.add_row(*(Text(column.text(row), style=_style(column.key, row)) for column, _ in fitting))
    return console.print(shown)


def _fitting(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], room: int
) -> list[tuple[Column, int]] | None:
    """The columns that are shown, with the least width each needs so that no value is cut; None: there is no room.

    Titles of several words are broken first; then the columns that can be missed go, those of the widest screens first.
    """
    left = [column for column in columns if column.least <= room]
    texts = {column.key: max((_cells(column.text(row)) for row in rows), default=0) for column in left}
    while True:
        for title_width in (len, _longest_word):
            widths = [_width(column, texts[column.key], title_width) for column in left]
            if sum(widths) + _GAP * (len(left) - 1) <= room:
                return list(zip(left, widths, strict=True))
        if not (optional := [column for column in left if column.least]):
            return None
        left.remove(max(optional, key=lambda column: column.least))


def _width(column: Column, longest: int, title_width: Callable[[str], int]) -> int:
    return max(title_width(column.title), min(longest, _LEAST_WIDE) if column.wide else longest)


def _longest_word(title: str) -> int:
    return max(map(len, title.split()), default=0)


def _cells(text: str) -> int:
    """How many places it takes on a terminal: an ideograph takes two."""
    from rich.cells import cell_len

    return cell_len(text)


def _sideways(console: Any, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], title: str) -> None:
    """A table with too many columns for this terminal: its columns become lines, rows stand beside each other."""
    from rich.text import Text

    names = max(len(column.title) for column in columns)
    room = max(_LEAST_WIDE, console.width - names - _GAP)
    widest = min(room, max(_cells(column.text(row)) for row in rows for column in columns))
    together = max(1, (room + _GAP) // (widest + _GAP))
    if title:
        console.print(Text(title, style="italic"))
    for start in range(0, len(rows), together):
        if start:
            console.print()
        for column in columns:
            line = Text(column.title.ljust(names), style="bold")
            for row in rows[start : start + together]:
                cell = Text(column.text(row), style=_style(column.key, row) or "not bold")
                cell.truncate(widest, overflow="ellipsis")
                cell.pad_left(widest - cell.cell_len) if column.right else cell.pad_right(widest - cell.cell_len)
                line.append(" " * _GAP).append_text(cell)
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True)


_STYLES = {
    "running": "cyan",
    "needs_review": "green",
    "accepted": "green",
    "completed": "green",
    "needs_human": "bold red",
    "failed": "bold red",
    "awaiting_approval": "bold yellow",
    "waiting": "yellow",
    "rate_limited": "yellow",
    "quota_exhausted": "yellow",
    "ok": "green",
    "warn": "yellow",
    "bad": "bold red",
}


def _style(key: str, row: Mapping[str, Any]) -> str:
    return _STYLES.get(str(row.get(key)), "") if key in {"status", "outcome", "state"} else ""
