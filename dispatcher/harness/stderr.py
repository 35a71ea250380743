"""Standard error of a CLI: which of its lines belong to the error channel.

Log lines count when they are of level ERROR and about a main call or a failed run. Anything else a CLI prints there is
a refusal to start or to go on, except warnings, which are none of both.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dispatcher import resets

_LIMIT = 20_000  # of one line
_KEEP = 200  # lines, the newest

_LOG = re.compile(r"^timestamp=(\S+) +level=(\w+) ")
_OLD_LOG = re.compile(r"^(INFO|DEBUG|WARN|ERROR) +(?:\d{4}-\d\d-\d\dT|service=)")
_FIELD = re.compile(r'(?<=\s)([A-Za-z][\w.]*)=("(?:[^"\\]|\\.)*"|\S*)')
_NOISE = re.compile(r"^(warning:|⚠|\[claude-code:|at \S|\}|\{|$)", re.I)
_ASKING = "asking id=per_"


@dataclass(frozen=True)
class ErrorLine:
    """`at` is the epoch time that the line itself states, if any; `model` is provider/model as the log names it."""

    text: str
    at: float | None = None
    model: str | None = None
    log: bool = False


def read_line(line: bytes) -> ErrorLine | None:
    """The line as part of the error channel, or None when it is not."""
    text = resets.normalise(line[:_LIMIT].decode("utf-8", "replace"))
    if match := _LOG.match(text):
        return _log_line(text, match[1], match[2])
    if match := _OLD_LOG.match(text):
        counts = (match[1] == "ERROR" and "service=llm" in text) or _ASKING in text
        return ErrorLine(text, log=True) if counts else None
    return None if _NOISE.match(text) else ErrorLine(text)


def read_lines(lines: Iterable[bytes], since: float | None = None) -> list[ErrorLine]:
    """The error lines, oldest first; those that state a time before `since` were overcome and are left out."""
    kept: deque[ErrorLine] = deque(maxlen=_KEEP)
    for line in lines:
        found = read_line(line)
        if found is not None and not (since is not None and found.at is not None and found.at < since):
            kept.append(found)
    return list(kept)


def _log_line(text: str, stamp: str, level: str) -> ErrorLine | None:
    """opencode 1.18: `small=true` marks the side calls; a failed run carries `ref=`, a main call `providerID=`."""
    fields = {name: value.strip('"') for name, value in _FIELD.findall(text)}
    if _ASKING in text:
        return ErrorLine(text, _time(stamp), log=True)
    if level != "ERROR" or fields.get("small") == "true":
        return None
    provider, model = fields.get("providerID"), fields.get("modelID")
    if not provider and "ref" not in fields and "ProviderModelNotFoundError" not in text:
        return None
    return ErrorLine(text, _time(stamp), f"{provider}/{model}" if provider and model else None, log=True)


def _time(stamp: str) -> float | None:
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo else None
