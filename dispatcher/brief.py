"""Text of a brief -> Brief. Strict, because a key that is silently ignored is a check that never ran.

A brief is Markdown. YAML front matter is optional: a first line `---`, keys, and a closing `---`. Everything after it
is the body, which reaches the worker; the front matter never does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar, cast

from dispatcher import strict_yaml
from dispatcher.errors import BriefError
from dispatcher.strict_yaml import LONGEST, Located, closest, duration
from dispatcher.task import Brief, Budget, Deliver, Difficulty, Expect, Tools

_TITLE = 120  # characters
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+")
_FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_DURATIONS = ("hard_cap", "stall", "start", "grace", "switch_after", "max_wait", "setup_cap", "verify_cap")
_COUNTS = ("attempts", "finish_attempts", "backoffs", "starts")
_MEASURES = ("usd", "tokens", "attempts", "minutes")
_WINDOWS = ("total", "window", "day", "week", "month")

E = TypeVar("E", bound=StrEnum)


def parse(text: str, *, file: str = "brief", new: bool = False) -> Brief:
    """Read a whole brief. Raises BriefError, with file and line, and nothing else.

    Of a `new` one, which is not queued yet, values that can mean nothing are refused too.
    """
    text = _normalised(text, file)
    front, body, first = _split(text, file)
    if not body.strip():
        raise BriefError(
            "the brief has no body", file=file, line=first, hint="write below the front matter what is to be done"
        )
    fields = _Fields(file, new).read(front) if front.strip() else {}
    fields.setdefault("title", _title_of(body))
    return Brief(body=body, **cast("Mapping[str, object]", fields))  # type: ignore[arg-type]


def _normalised(text: str, file: str) -> str:
    """One kind of line end, no byte order mark. NUL and undecodable bytes cannot be handed to a worker."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for found, what in ((text.find("\x00"), "a NUL character"), (_surrogate(text), "text that is not UTF-8")):
        if found >= 0:
            raise BriefError(
                f"the brief holds {what}", file=file, line=text.count("\n", 0, found) + 1, hint="remove it"
            )
    return text


def _surrogate(text: str) -> int:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return error.start
    return -1


def _split(text: str, file: str) -> tuple[str, str, int]:
    """Front matter, body, and the line on which the body starts."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return "", text, 1
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]).lstrip("\n"), number + 2
    raise BriefError(
        "the front matter is never closed",
        file=file,
        line=1,
        hint="close it with a line `---`, or start the brief with something else than `---`",
    )


def _title_of(body: str) -> str:
    """The first heading outside of code blocks, else the first words of the text before any code block."""
    fenced = False
    for line in body.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        heading = "" if found is None else _clean(_unclosed(line[found.end() :][:1000].rstrip()))
        if heading:
            return heading
    prose = body[:2000]
    opened = _FENCE.search(prose)
    words = _clean(prose[: opened.start()] if opened and prose[: opened.start()].strip() else prose).split()
    return _shortened(" ".join(words[:10]) + (" …" if len(words) > 10 else "")) or "untitled"


def _unclosed(heading: str) -> str:
    """A heading without its closing `##`; the sign in `C#` is part of it."""
    bare = heading.rstrip("#")
    return bare if not bare or bare[-1] in " \t" else heading


def _clean(text: str) -> str:
    return _shortened(" ".join(_CONTROL.sub(" ", text).split()))


def _shortened(text: str) -> str:
    return text if len(text) <= _TITLE else text[: _TITLE - 1].rstrip() + "…"


class _Fields:
    """The front matter, key by key. Every reader takes a name and a node and gives the value or raises."""

    def __init__(self, file: str, new: bool) -> None:
        self._file = file
        self._new = new
        self._readers: Mapping[str, Callable[[str, Located], object]] = {
            "title": lambda name, node: _clean(self._text(name, node)),
            "difficulty": lambda name, node: self._choice(name, node, Difficulty),
            "repo": self._text,
            "base": self._text,
            "expect": lambda name, node: self._choice(name, node, Expect),
            "tools": lambda name, node: self._choice(name, node, Tools),
            "setup": self._texts,
            "verify": self._texts,
            "hidden_checks": self._text,
            "touch": self._touch,
            "priority": self._whole,
            "after": self._texts,
            "after_accepted": self._texts,
            "candidates": self._some,
            "budget": self._budget,
            "approvals": self._approvals,
            "limits": self._limits,
            "deliver": lambda name, node: self._choice(name, node, Deliver),
            "sandbox": self._text,
            "auto_accept": self._auto_accept,
        }

    def read(self, front: str) -> dict[str, object]:
        root = strict_yaml.parse(front, file=self._file, first_line=2, error=BriefError)
        fields: dict[str, object] = {}
        for name, node in _items(root):
            if name not in self._readers:
                raise self._error(f'unknown key "{name[:60]}"', node, closest(name, self._readers))
            fields[name] = self._readers[name](name, node)
        return fields

    def _error(self, message: str, node: Located, hint: str | None = None) -> BriefError:
        return BriefError(message, file=self._file, line=node.line, hint=hint)

    def _text(self, name: str, node: Located) -> str:
        """Text; a whole number is taken as written, so that a commit of digits or a task id needs no quotes."""
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            raise self._error(f"`{name}` must be text", node, "quote it if it looks like something else")
        return value.strip()

    def _texts(self, name: str, node: Located) -> tuple[str, ...]:
        if isinstance(node.value, list):
            return tuple(self._text(name, item) for item in node.value)
        return (self._text(name, node),)

    def _some(self, name: str, node: Located) -> tuple[str, ...]:
        found = self._texts(name, node)
        if self._new and not found:
            raise self._error(f"`{name}` names nothing", node, "leave it out, or name one")
        return found

    def _touch(self, name: str, node: Located) -> tuple[str, ...]:
        found = self._some(name, node)
        for pattern in found:
            if self._new and ".." in pattern.lstrip("!").split("/"):
                why = f'`{name}` cannot allow "{pattern[:60]}"'
                raise self._error(why, node, "patterns are of paths in the repository; /x is x at its top")
        return found

    def _choice(self, name: str, node: Located, kind: type[E]) -> E:
        options = [member.value for member in kind]
        if isinstance(node.value, str) and node.value in options:
            return kind(node.value)
        shown = str(node.value)[:60] if isinstance(node.value, str | int | float) else "this"
        raise self._error(f'`{name}` cannot be "{shown}"', node, closest(shown, options))

    def _whole(self, name: str, node: Located) -> int:
        if isinstance(node.value, bool) or not isinstance(node.value, int):
            raise self._error(f"`{name}` must be a whole number", node)
        if abs(node.value) > 1_000_000:
            raise self._error(f"`{name}` must be between -1000000 and 1000000", node)
        return node.value

    def _amount(self, name: str, node: Located) -> float:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float) or node.value < 0:
            raise self._error(f"`{name}` must be a number, 0 or more", node)
        return node.value

    def _mapping(self, name: str, node: Located) -> list[tuple[str, Located]]:
        if not isinstance(node.value, dict):
            raise self._error(f"`{name}` must be a mapping of keys", node, f"write `{name}: {{key: value}}`")
        return _items(node)

    def _budget(self, name: str, node: Located) -> Budget:
        """`budget: {usd: 2, tokens: {total: 500_000}}`: a bare number is for the whole task."""
        found: dict[str, dict[str, float]] = {}
        for measure, inner in self._mapping(name, node):
            if measure not in _MEASURES:
                raise self._error(f'`{name}` has no measure "{measure[:60]}"', inner, closest(measure, _MEASURES))
            if not isinstance(inner.value, dict):
                found[measure] = {"total": self._amount(f"{name}.{measure}", inner)}
                continue
            found[measure] = {}
            for window, amount in _items(inner):
                if window not in _WINDOWS:
                    raise self._error(f'`{name}` has no window "{window[:60]}"', amount, closest(window, _WINDOWS))
                found[measure][window] = self._amount(f"{name}.{measure}.{window}", amount)
        return Budget(**found)

    def _limits(self, name: str, node: Located) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for key, inner in self._mapping(name, node):
            if key in _COUNTS:
                count = self._whole(f"{name}.{key}", inner)
                if count < 0:
                    raise self._error(f"`{name}.{key}` must be 0 or more", inner)
                found[key] = count
                continue
            if key not in _DURATIONS:
                known = closest(key, (*_DURATIONS, *_COUNTS))
                raise self._error(f'a brief has no limit "{key[:60]}"', inner, known)
            seconds = duration(inner.value)
            if seconds is None:
                raise self._error(f"`{name}.{key}` must be a duration", inner, "for example 45m, 90s, 2h or 1h30m")
            if self._new and not 0 < seconds <= LONGEST:
                raise self._error(f"`{name}.{key}` must be longer than nothing and shorter than ten years", inner)
            found[key] = seconds
        return found

    def _approvals(self, name: str, node: Located) -> tuple[Mapping[str, object], ...]:
        """A list of mappings, read as they are: what they mean is the policy's business."""
        items = node.value if isinstance(node.value, list) else [node]
        for item in items:
            self._mapping(name, item)
        return tuple(cast("Mapping[str, object]", strict_yaml.to_plain(item)) for item in items)

    def _auto_accept(self, name: str, node: Located) -> str | None:
        if node.value is None or node.value is False:
            return None
        if node.value == "checks":
            return "checks"
        raise self._error(f"`{name}` can only be `checks`", node, "leave it out to have a person accept the work")


def _items(node: Located) -> list[tuple[str, Located]]:
    return list(cast("dict[str, Located]", node.value).items())
