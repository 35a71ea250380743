"""JSON by the C core that `json` itself uses, without `re` and `enum`, which cost more than the interpreter's start.

Only for the supervisor's own small files. Values are dict, list, tuple, str, int, float, bool and None; text is ASCII
with escapes, so lone surrogates survive.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Rules:
    """What the scanner asks of a `json.JSONDecoder`."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_Rules())  # type: ignore[arg-type]  # the stub wants a scanner; any object with these names will do


def loads(text: str) -> Any:
    """The value; ValueError for anything that is not one whole JSON text."""
    text = text.strip()
    try:
        value, end = _scan(text, 0)
    except (
        StopIteration,
        SystemError,
    ):  # SystemError: the core cannot find its own exception while `json` is not loaded
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("text after the JSON value")
    return value


def dumps(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{encode_basestring_ascii(str(k))}: {dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dumps, value)) + "]"
    raise TypeError(f"not a JSON value: {type(value).__name__}")
