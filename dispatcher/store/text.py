"""Text on its way into the database: what SQLite or UTF-8 cannot hold is replaced, what nobody will read is cut.

Worker output holds NUL bytes, lone surrogates (bytes that were no UTF-8) and megabytes on one line. A NUL ends a text
for many SQLite functions, a lone surrogate cannot be encoded at all and would make every later listing fail. Control
characters stay: they are data here and are neutralised where they are printed.
"""

from __future__ import annotations

from dispatcher.errors import BadInput

REPLACEMENT = "\ufffd"
MAX_BRIEF = 16 * 1024 * 1024
MAX_TEXT = 256 * 1024
MAX_LINE = 4 * 1024


def clean(value: str, limit: int = MAX_TEXT) -> str:
    """`value` as text that can be stored: at most `limit` characters, head and tail kept when it is longer."""
    if len(value) > limit:
        value = _shorten(value, limit)
    if "\x00" in value:
        value = value.replace("\x00", REPLACEMENT)
    try:
        value.encode()
    except UnicodeEncodeError:
        value = "".join(REPLACEMENT if "\ud800" <= char <= "\udfff" else char for char in value)
    return value


def brief(value: str) -> str:
    """A brief is never shortened: a worker would get half of an order."""
    if len(value) > MAX_BRIEF:
        raise BadInput(
            f"the brief has {len(value):,} characters; at most {MAX_BRIEF:,} can be stored",
            hint="put the bulk into a file of the repository and name that file in the brief",
        )
    return clean(value, MAX_BRIEF)


def path(value: str) -> str:
    """A path is stored exactly or not at all: a replaced character would name another file."""
    if clean(value, len(value)) != value:
        raise BadInput(f"the path {clean(value)!r} is not valid UTF-8 and cannot be stored", hint="rename the folder")
    return value


def _shorten(value: str, limit: int) -> str:
    mark = f"\n... {len(value) - limit:,} characters left out ...\n"
    keep = max(limit - len(mark), 0)
    if keep < 200:
        return value[:limit]
    tail = keep // 4
    return value[: keep - tail] + mark + value[len(value) - tail :]


def match(words: str) -> str:
    """Words as a full-text query: all of them, in any order; `word*` finds beginnings. No word is ever an operator."""
    parts = []
    for word in clean(words, MAX_LINE).split():
        star = "*" if word.endswith("*") and len(word) > 1 else ""
        parts.append('"' + word.rstrip("*").replace('"', '""') + '"' + star)
    return " ".join(parts)
