"""Times as people type them: `7d`, `2 hours ago`, `yesterday`, `last week`, `monday`, `2026-11-01`, `2026-11-01 14:30`.

In the time zone of this machine, unless the text names one (`Z`, `+02:00`). Days, weeks and months have their own
length in it: across a change of the clocks, yesterday is still yesterday.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from dispatcher.errors import BadInput

_UNITS = {"m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400, "w": 604800}
_UNITS |= {"week": 604800, "month": 30 * 86400, "year": 365 * 86400, "s": 1, "sec": 1, "second": 1, "y": 365 * 86400}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_AGO = re.compile(r"(?:(?:last|past)\s+)?(\d{1,9})\s*([a-z]+?)s?(?:\s+ago)?")
HINT = "such as 7d, '2 hours ago', today, yesterday, 'last week', monday, 2026-11-01, '2026-11-01 14:30'"


def since(text: str, now: float) -> float:
    """The moment at which the named time begins."""
    return _span(text, now)[0]


def until(text: str, now: float) -> float:
    """The moment at which the named time is over: `--until 2026-11-01` has that day in it."""
    return _span(text, now)[1]


def _span(text: str, now: float) -> tuple[float, float]:
    words = " ".join(text.strip().lower().split())
    try:
        found = _named(words, now) or _ago(words, now) or _dated(text.strip())
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None:
        raise BadInput(f"{text!r} is no time that is understood here", hint=HINT)
    return found


def _named(words: str, now: float) -> tuple[float, float] | None:
    here = datetime.fromtimestamp(now)
    today = here.replace(hour=0, minute=0, second=0, microsecond=0)
    monday, first = today - timedelta(days=today.weekday()), today.replace(day=1)
    before = (first - timedelta(days=1)).replace(day=1)
    day = timedelta(days=1)
    spans = {
        "now": (here, here),
        "today": (today, today + day),
        "yesterday": (today - day, today),
        "this week": (monday, monday + 7 * day),
        "last week": (monday - 7 * day, monday),
        "this month": (first, (first + 32 * day).replace(day=1)),
        "last month": (before, first),
        "this year": (today.replace(month=1, day=1), today.replace(year=today.year + 1, month=1, day=1)),
        "last year": (today.replace(year=today.year - 1, month=1, day=1), today.replace(month=1, day=1)),
    }
    if words in _DAYS:
        back = today - timedelta(days=(today.weekday() - _DAYS.index(words)) % 7)
        spans[words] = (back, back + day)
    found = spans.get(words)
    return None if found is None else (found[0].timestamp(), found[1].timestamp())


def _ago(words: str, now: float) -> tuple[float, float] | None:
    match = _AGO.fullmatch(words)
    if match is None or match[2] not in _UNITS:
        return None
    moment = now - int(match[1]) * _UNITS[match[2]]
    return (moment, moment) if moment >= 0 else None


def _dated(text: str) -> tuple[float, float] | None:
    if re.fullmatch(r"\d{4}-\d\d", text):
        first = datetime.fromisoformat(text + "-01")
        return first.timestamp(), (first + timedelta(days=32)).replace(day=1).timestamp()
    moment = datetime.fromisoformat(text)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return moment.timestamp(), (moment + timedelta(days=1)).timestamp()
    return moment.timestamp(), moment.timestamp()
