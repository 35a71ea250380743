"""Lines of JSON events, read cheaply and without trust: cut lines, bad UTF-8 and strange shapes are all normal.

Inside a JSON string every quote is escaped, so the bytes `"type":"result"` can only be structure, never something a
model or a tool wrote. That makes it safe to look for them before, or instead of, parsing a line.
"""

from __future__ import annotations

import json
import re
import sys

PARSE_LIMIT = 8 * 1024 * 1024  # longer lines are never parsed
TEXT_LIMIT = 100_000  # of a final text

_HEAD = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Za-z_.]{1,40})"')
_RESULT = re.compile(rb'"type"\s*:\s*"result"')

Object = dict[str, object]


def kind_of(line: bytes) -> str:
    """The type of an event, from its first bytes; "" for what is not an event. claude puts it last in a `result`."""
    if match := _HEAD.match(line):
        return match[1].decode("ascii")
    if line.startswith(b"{") and _RESULT.search(line):
        return "result"
    return ""


def at_key(
    key: bytes, pattern: re.Pattern[bytes], text: bytes, start: int = 0, end: int = sys.maxsize
) -> re.Match[bytes] | None:
    """The first match of a pattern that begins with `key`: over long lines much faster than its own search."""
    place = text.find(key, start, end)
    while place >= 0:
        if match := pattern.match(text, place, end):
            return match
        place = text.find(key, place + 1, end)
    return None


def parse(line: bytes) -> Object | None:
    """The event, or None when the line is not a whole JSON object."""
    value = parse_any(line)
    return value if isinstance(value, dict) else None


def parse_any(line: bytes) -> object:
    if len(line) > PARSE_LIMIT:
        return None
    try:
        value: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value


def obj(value: object, *path: str) -> Object:
    """The object at that path, else an empty one."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Object]:
    """The objects of a list, else nothing."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        return None
    return int(value)


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        return None
    return float(value)


def headers(value: object) -> dict[str, str]:
    return {str(key): str(item) for key, item in value.items()} if isinstance(value, dict) else {}


def shorten(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
