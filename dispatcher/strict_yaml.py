"""YAML without surprises: text -> plain values that remember their line.

YAML as libraries read it loses things silently: the second of two equal keys wins, `no` becomes False, `010` becomes 8,
an anchor multiplies text. A configuration that decides whose money is spent may not be read like that, so everything
of the kind is an error with file, line and the fix. Only the parser's events are used; the values are made here.

PyYAML is imported where it is needed, because its import alone costs three bare starts of Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from dispatcher.errors import BriefError, ConfigError
from dispatcher.record import record

if TYPE_CHECKING:
    from yaml.events import Event, ScalarEvent

_MAX_DEPTH = 40
# Written as what is refused: the set of what is allowed takes 6 ms to compile, half of Python's own start.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_TAB_INDENT = re.compile(r"( *)\t[ \t]*[^\s]")
_TRAPS = frozenset({"yes", "no", "on", "off"})
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS: Mapping[str, bool] = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9][0-9_]*\Z")
_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*\.[0-9]*([eE][-+]?[0-9]{1,3})?\Z")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?\Z")
_DURATION_SECONDS = (86400.0, 3600.0, 60.0, 1.0)


@record
class Located:
    """A value and where it stands. Lines and columns count from 1.

    `value` is a dict[str, Located], a list[Located], a str, int, float, bool or None.
    """

    value: object
    line: int
    column: int


def parse(
    text: str,
    *,
    file: str,
    first_line: int = 1,
    error: type[ConfigError] | type[BriefError] = ConfigError,
) -> Located:
    """Read one document whose top is a mapping; empty text is an empty mapping.

    `first_line` is the line of `file` on which `text` starts. Raises `error` and nothing else.
    """
    reader = _Reader(text.removeprefix("\ufeff"), file, first_line, error)
    return reader.read()


def to_plain(node: Located) -> object:
    """The value without its places."""
    value = node.value
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    return value


def to_cache(node: Located) -> object:
    """A form that `json` can write: [line, column, kind, value]."""
    value = node.value
    if isinstance(value, dict):
        return [node.line, node.column, "map", {key: to_cache(item) for key, item in value.items()}]
    if isinstance(value, list):
        return [node.line, node.column, "list", [to_cache(item) for item in value]]
    return [node.line, node.column, "value", value]


def from_cache(data: object) -> Located:
    """The inverse of `to_cache`. ValueError when `data` is something else, so that the caller reads the file again."""
    match data:
        case [int(line), int(column), "map", dict(items)]:
            return Located({str(key): from_cache(item) for key, item in items.items()}, line, column)
        case [int(line), int(column), "list", list(items)]:
            return Located([from_cache(item) for item in items], line, column)
        case [int(line), int(column), "value", (str() | int() | float() | None) as value]:
            return Located(value, line, column)
    raise ValueError("not a cached configuration")


LONGEST = 3650 * 86400.0  # seconds of any duration that a person sets: ten years


def duration(value: object) -> float | None:
    """Seconds of `45m`, `90s`, `2h`, `1h30m`, `1d` or of a bare number; None when it is no duration."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if value >= 0 else None
    if not isinstance(value, str) or not value or len(value) > 30:
        return None
    found = _DURATION.match(value.replace(" ", ""))
    if found is None or not any(found.groups()):
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _DURATION_SECONDS, strict=True) if part)


def closest(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the one that was probably meant, else all of them."""
    from difflib import get_close_matches

    options = list(known)
    near = get_close_matches(word.lower()[:100], options, n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else f"known here: {', '.join(options) or 'nothing'}"


class _Reader:
    """One pass over one text. Errors carry the line of the whole file."""

    def __init__(self, text: str, file: str, first_line: int, error: type[ConfigError] | type[BriefError]) -> None:
        self._text = text
        self._file = file
        self._first = first_line
        self._error = error
        self._spans: list[tuple[int, int]] = []  # lines inside scalars: a tab there is content

    def read(self) -> Located:
        self._refuse_unprintable()
        matches = ((number, _TAB_INDENT.match(line)) for number, line in enumerate(self._text.split("\n")))
        tabs = [(number, found.end(1)) for number, found in matches if found is not None]
        import yaml

        loader: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            root = self._document(iter(yaml.parse(self._text, Loader=loader)))
        except yaml.MarkedYAMLError as problem:
            self._fail_syntax(problem, tabs)
        except yaml.YAMLError as problem:
            self._fail(str(problem).splitlines()[0], 0)
        for line, column in tabs:
            if not any(start < line <= end for start, end in self._spans):
                self._fail_tab(line, column)
        return root

    def _document(self, events: Iterator[Event]) -> Located:
        from yaml import events as kinds

        root: Located | None = None
        for event in events:
            if isinstance(event, kinds.DocumentEndEvent | kinds.StreamStartEvent | kinds.StreamEndEvent):
                continue
            if isinstance(event, kinds.DocumentStartEvent):
                if root is not None:
                    self._fail("a second document starts here", _place(event)[0], "keep one document per file")
                node = self._node(next(events), events, 0)
                root = Located({}, node.line, node.column) if node.value is None else node
                if not isinstance(root.value, dict):
                    self._fail(
                        f"the top must be a mapping of keys, not {_kind(root.value)}",
                        root.line - self._first,
                        "write `key: value`",
                    )
        return root if root is not None else Located({}, self._first, 1)

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> Located:
        from yaml import events as kinds

        row, offset = _place(event)
        if isinstance(event, kinds.AliasEvent) or getattr(event, "anchor", None):
            self._fail("anchors and aliases (& and *) are not read", row, "write the value out, or quote it")
        if getattr(event, "tag", None):
            self._fail("tags (!) are not read", row, "quote the value if the ! is part of it")
        if depth > _MAX_DEPTH:
            self._fail(f"nested deeper than {_MAX_DEPTH} levels", row)
        line, column = row + self._first, offset + 1
        if isinstance(event, kinds.ScalarEvent):
            return Located(self._scalar(event), line, column)
        if isinstance(event, kinds.SequenceStartEvent):
            items: list[Located] = []
            for inner in events:
                if isinstance(inner, kinds.SequenceEndEvent):
                    break
                items.append(self._node(inner, events, depth + 1))
            return Located(items, line, column)
        return Located(self._mapping(events, depth), line, column)

    def _mapping(self, events: Iterator[Event], depth: int) -> dict[str, Located]:
        from yaml import events as kinds

        found: dict[str, Located] = {}
        lines: dict[str, int] = {}
        for event in events:
            if isinstance(event, kinds.MappingEndEvent):
                break
            key = self._key(event, events, depth)
            if key in found:
                first = lines[key] + self._first
                self._fail(
                    f'key "{key}" is written twice: here and on line {first}',
                    _place(event)[0],
                    "keep one of them",
                )
            lines[key] = _place(event)[0]
            value = self._node(next(events), events, depth + 1)
            # A value that starts below its key is reported at the key: that is the line a person has to look at.
            row, offset = _place(event)
            below = value.line > row + self._first
            found[key] = Located(value.value, row + self._first, offset + 1) if below else value
        return found

    def _key(self, event: Event, events: Iterator[Event], depth: int) -> str:
        node = self._node(event, events, depth + 1)
        if not isinstance(node.value, str):
            shown = "null" if node.value is None else str(node.value).lower()
            fix = f'quote it: "{shown}"' if not isinstance(node.value, dict | list) else "write `key: value`"
            self._fail(f"a key must be text, not {_kind(node.value)}", _place(event)[0], fix)
        if node.value == "<<":
            self._fail("merge keys (<<) are not read", _place(event)[0], "write the keys out")
        return node.value

    def _scalar(self, event: ScalarEvent) -> str | int | float | bool | None:
        text: str = event.value
        if not event.implicit[0]:  # quoted or a block
            row, column = _place(event, end=True)
            self._spans.append((_place(event)[0], row if column else row - 1))
            return text
        if text.lower() in _TRAPS:
            self._fail(
                f"`{text}` without quotes is a boolean for some readers of YAML and a word for others",
                _place(event)[0],
                f'write true or false, or quote it: "{text}"',
            )
        if text in _NULLS:
            return None
        if text in _BOOLS:
            return _BOOLS[text]
        if _INT.match(text):
            return self._integer(text, _place(event)[0])
        return float(text.replace("_", "")) if _FLOAT.match(text) else text

    def _integer(self, text: str, line: int) -> int:
        digits = text.lstrip("+-").replace("_", "")
        if digits.startswith("0") and len(digits) > 1:
            self._fail(
                f"`{text}` has a leading zero: octal for some readers, decimal for others", line, f'quote it: "{text}"'
            )
        if len(digits) > 18:
            self._fail("this number is too large", line, "quote it if it is text")
        return int(text.replace("_", ""))

    def _refuse_unprintable(self) -> None:
        found = _UNPRINTABLE.search(self._text)
        if found is not None:
            line = self._text.count("\n", 0, found.start())
            self._fail(f"character U+{ord(found.group()):04X} is not allowed in YAML", line, "remove it")

    def _fail_syntax(self, problem: Exception, tabs: list[tuple[int, int]]) -> NoReturn:
        mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
        line = mark.line if mark is not None else 0
        for tab_line, column in tabs:
            if tab_line <= line:
                self._fail_tab(tab_line, column)
        words = getattr(problem, "problem", None) or "not valid YAML"
        hint = "check the indentation and the quotes of this line"
        if "cannot start any token" in words:
            hint = "quote a value that starts with @, ` or %; indent with spaces only"
        if "mapping values are not allowed" in words:
            hint = "a value that holds a colon and a space must be quoted"
        self._fail(str(words), line, hint)

    def _fail_tab(self, line: int, column: int) -> NoReturn:
        self._fail(f"a tab in the indentation (column {column + 1})", line, "indent with spaces")

    def _fail(self, message: str, line: int, hint: str | None = None) -> NoReturn:
        raise self._error(message, file=self._file, line=line + self._first, hint=hint)


def _place(event: Event, *, end: bool = False) -> tuple[int, int]:
    """Line and column, from 0. Only events made by hand have no marks; the stubs cannot know."""
    mark = event.end_mark if end else event.start_mark
    return (mark.line, mark.column) if mark is not None else (0, 0)


def _kind(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "nothing")
