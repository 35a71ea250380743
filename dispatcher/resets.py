"""When does a limit end? Reads the wordings that providers and CLIs use and answers in UTC epoch seconds.

The traps, each one seen in the field: a clock time without a date belongs to tomorrow when it has passed, unless it
has *just* passed; `CST` is a dozen zones, the numeric offset beside it is one; a sentence wrapped by a terminal; month
and day without a year around New Year; a message that still shows a reset of yesterday. So: structured numbers beat
words, a reset in the past means "soon", and nothing is ever further away than `CAP`.

Only error text may be given to this module. It cannot tell a limit from an agent that writes about limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo

CAP = 8 * 86400.0  # a weekly limit and a day of slack; a longer one is simply asked again after that
SOON = 60.0  # the wait after a reset that has just passed
GRACE = 3600.0  # a clock time that passed less than this ago is "just now", not "tomorrow"
_BACKOFF = (900.0, 1800.0, 3600.0)  # a limit that is hit again although its reset has come

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BULLETS = str.maketrans(
    {"’": "'", "‘": "'", "∙": "·", "•": "·", "|": "|", "\u00a0": " ", "\u202f": " ", "\u2028": " "}
)

_ABBREVIATIONS = {  # only those that mean one thing; CST, IST and BST do not
    "utc": 0, "gmt": 0, "z": 0, "pst": -480, "pdt": -420, "mst": -420, "mdt": -360, "est": -300, "edt": -240,
    "cet": 60, "cest": 120, "eest": 180, "msk": 180, "jst": 540, "kst": 540, "aest": 600, "aedt": 660,
}  # fmt: skip
_ALIASES = {  # old names that some systems no longer install
    "asia/calcutta": "Asia/Kolkata", "asia/saigon": "Asia/Ho_Chi_Minh", "asia/katmandu": "Asia/Kathmandu",
    "asia/rangoon": "Asia/Yangon", "europe/kiev": "Europe/Kyiv", "us/pacific": "America/Los_Angeles",
    "us/mountain": "America/Denver", "us/central": "America/Chicago", "us/eastern": "America/New_York",
    "america/buenos_aires": "America/Argentina/Buenos_Aires",
}  # fmt: skip
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_UNIT = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_UNIT_WORD = (
    r"weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|milliseconds?|ms|m|seconds?|secs?|s|"
    r"секунд\w*|segundos?|secondes?|sekunden?|秒"
)
_PART = rf"(\d{{1,9}}(?:\.\d{{1,6}})?)\s*({_UNIT_WORD})(?![a-z])"
_DURATION = (
    rf"(?P<duration>\d{{1,9}}(?:\.\d{{1,6}})?\s*(?:{_UNIT_WORD})(?![a-z])"
    rf"(?:[\s,]*(?:and\s+)?\d{{1,9}}(?:\.\d{{1,6}})?\s*(?:{_UNIT_WORD})(?![a-z]))*)"
)

_CUE = (
    r"(?:resets?|reset\s+(?:time|date)|try\s+again|retry(?:ing)?|available(?:\s+again)?|lifted|wait|until|refreshe?s?)"
)
_ZONE = r"(?:\s*\(\s*(?P<zone>[A-Za-z][A-Za-z0-9_+\-/ ]{0,40}?)\s*\)|\s+(?P<letters>[A-Z]{1,4}T?C?)\b)?"
_TIME = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?::\d{2})?\s*(?P<half>[ap])?\.?(?(half)m\b\.?)"

_PIPE = r"\|\s*(\d{10,13})\b"
_AT_FIELD = r"[\"']?\bresets?_?at[\"']?\s*[:=]\s*[\"']?(\d{10,13})\b"
_IN_FIELD = (
    r"[\"']?\b(?:resets?_?in_?(?:seconds|secs)?|retry[-_]?after(?:[-_]seconds)?)[\"']?\s*[:=]\s*[\"']?(\d{1,9}(?:\.\d+)?)\b"
    r"(?!\s*(?:m|h|d))"
)
_ISO = (
    rf"{_CUE}\D{{0,24}}?(?P<year>\d{{4}})-(?P<month>\d{{2}})-(?P<day>\d{{2}})[T ](?P<hour>\d{{2}}):(?P<minute>\d{{2}})"
    r"(?::(?P<second>\d{2})(?:\.\d+)?)?\s*(?P<offset>Z\b|[+-]\d{2}:?\d{2})?" + _ZONE
)
_MONTH_DAY = (
    rf"{_CUE}\s*(?:at|on|after)?\s*(?P<month>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
    rf"(?:,?\s+(?P<year>20\d{{2}}))?(?:,?\s*(?:at\s+)?{_TIME})?{_ZONE}"
)
_WEEKDAY = rf"{_CUE}\s*(?:at|on)?\s*(?P<weekday>{'|'.join(_DAYS)})[a-z]{{0,6}},?\s*(?:at\s+)?{_TIME}{_ZONE}"
_CLOCK = rf"{_CUE}\s*(?:at|after)?\s*{_TIME}{_ZONE}"
_RELATIVE = rf"{_CUE}\s*(?:again\s*)?(?:in|after|for)?\s*[~≈:]?\s*{_DURATION}"
_BARE_SECONDS = r"retry(?:ing)?\s*(?:in|after)\s*[~≈:]?\s*(\d{1,9}(?:\.\d+)?)(?![\d:.])(?!\s*(?:am|pm)\b)"
_FOREIGN_SECONDS = r"\b(\d{2,7})\s*(?:秒|секунд\w*|segundos?|secondes?|sekunden?)"
_UNDER_A_MINUTE = rf"{_CUE}\s*in\s*(?:less than|under|about)\s*(?:a|one|1)\s*minute"


def _search(pattern: str, line: str) -> re.Match[str] | None:
    """The patterns are compiled when a limit is read for the first time: most runs never meet one."""
    return re.search(pattern, line, re.I)


def normalise(text: str) -> str:
    """One line, without escape codes, with plain quotes and one kind of bullet: what all patterns are written for."""
    return " ".join(_ANSI.sub("", text).translate(_BULLETS).split())


def parse(text: str, now: float, *, default_zone: str = "UTC") -> float | None:
    """The end of a limit that `text` names, later than `now` and at most `CAP` away; None when it names none.

    `default_zone` is used where the text gives a clock time without a zone, or with one that nobody knows.
    """
    line = normalise(text[:20_000])
    for found in _readings(line, now, _zone(default_zone, UTC)):
        if found is not None:
            return _ahead(found, now)
    return None


def bound(until: float, now: float, previous_hits: int = 0) -> float:
    """Where a hold may really end: after `now`, at most `CAP` away, and later each time the same limit is hit again.

    `previous_hits` counts the hits of the same limit without a success in between. The first hit believes the server
    to the second. A limit that came back although its reset is here waits 15, 30, then 60 minutes.
    """
    if not until > now:  # also not-a-number
        until = now + SOON
    if previous_hits > 0 and until - now <= SOON:
        until = now + _BACKOFF[min(previous_hits, len(_BACKOFF)) - 1]
    return min(until, now + CAP)


def epoch(value: object, now: float) -> float | None:
    """A number (or its text) as epoch seconds. Milliseconds are recognised by their size; nonsense is None."""
    number = _number(value)
    if number is None:
        return None
    if number > 1e14:
        return None
    if number > 1e11:
        number /= 1000.0
    return _ahead(number, now) if number > 1e9 else None


def after(seconds: object, now: float) -> float | None:
    """A wait in seconds (or its text) as epoch seconds."""
    number = _number(seconds)
    return None if number is None or number < 0 else _ahead(now + number, now)


def header(name: str, value: str, now: float) -> float | None:
    """A reset from one HTTP response header; None for headers that carry none."""
    name, value = name.lower(), value.strip()
    if name == "retry-after-ms":
        number = _number(value)
        return None if number is None else after(number / 1000.0, now)
    if name == "retry-after":
        return after(value, now) if _number(value) is not None else _http_date(value, now)
    if name.endswith("-reset") or "ratelimit-reset" in name:
        return epoch(value, now) or _iso_value(value, now) or after(_duration(value) or _number(value), now)
    return None


def next_midnight(now: float) -> float:
    """The next 00:00 UTC: where the day of the free allowances ends."""
    return (now // 86400.0 + 1) * 86400.0


def _ahead(found: float, now: float) -> float:
    """Never the past, never beyond the cap."""
    return min(found, now + CAP) if found > now else now + SOON


def _readings(line: str, now: float, zone: tzinfo) -> Iterator[float | None]:
    """All ways to read the line, the surest first."""
    for pattern in (_PIPE, _AT_FIELD):
        if match := _search(pattern, line):
            yield epoch(match[1], now)
    if match := _search(_IN_FIELD, line):
        yield after(match[1], now)
    if match := _search(_ISO, line):
        yield _iso(match, now, zone)
    if match := _search(_MONTH_DAY, line):
        yield _month_day(match, now, zone)
    if match := _search(_WEEKDAY, line):
        yield _weekday(match, now, zone)
    if _search(_UNDER_A_MINUTE, line):
        yield now + SOON
    if match := _search(_RELATIVE, line):
        yield after(_duration(match["duration"]), now)
    if match := _search(_CLOCK, line):
        yield _clock(match, now, zone)
    for pattern in (_BARE_SECONDS, _FOREIGN_SECONDS):
        if match := _search(pattern, line):
            yield after(match[1], now)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e18 else None  # infinite and not-a-number fail here too


def _duration(text: str) -> float | None:
    parts = re.findall(_PART, text, re.I)
    if not parts:
        return None
    return sum(float(number) * _UNIT[_unit(word.lower())] for number, word in parts)


def _unit(word: str) -> str:
    if word in ("ms",) or word.startswith("milli"):
        return "ms"
    return word[0] if word[0] in _UNIT else "s"


def _zone(name: str | None, default: tzinfo) -> tzinfo:
    if not name:
        return default
    name = name.strip()
    if name.lower() in _ABBREVIATIONS:
        return timezone(timedelta(minutes=_ABBREVIATIONS[name.lower()]))
    if match := re.fullmatch(r"(?:utc|gmt)\s*([+-])(\d{1,2})(?::?(\d{2}))?", name, re.I):
        return _offset(match[1], int(match[2]), int(match[3] or 0)) or default
    from zoneinfo import ZoneInfo  # slow to import and rarely needed

    for candidate in (name.replace(" ", "_"), _ALIASES.get(name.lower(), "")):
        if "/" in candidate:  # plain words such as CST or EST5EDT are not taken from the system
            try:
                return ZoneInfo(candidate)
            except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
                continue
            except KeyError:
                continue
    return default


def _offset(sign: str, hours: int, minutes: int) -> timezone | None:
    if hours > 15 or minutes > 59:
        return None
    delta = timedelta(hours=hours, minutes=minutes)
    return timezone(-delta if sign == "-" else delta)


def _match_zone(match: re.Match[str], default: tzinfo) -> tzinfo:
    groups = match.groupdict()
    return _zone(groups.get("zone") or groups.get("letters"), default)


def _hour(match: re.Match[str]) -> tuple[int, int] | None:
    """Hour and minute of a clock time. A bare number (`resets 5`) is not one."""
    if match["hour"] is None or (match["half"] is None and match["minute"] is None):
        return None
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match["half"].lower() == "p" else 0)
    return (hour, minute) if hour < 24 and minute < 60 else None


def _at(year: int, month: int, day: int, clock: tuple[int, int], zone: tzinfo) -> float | None:
    try:
        return datetime(year, month, day, *clock, tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return None


def _local(now: float, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(now, zone)


def _iso(match: re.Match[str], now: float, zone: tzinfo) -> float | None:
    offset = match["offset"]
    if offset and offset.upper() != "Z":
        zone = _offset(offset[0], int(offset[1:3]), int(offset[-2:])) or zone
    elif offset:
        zone = UTC
    else:
        zone = _match_zone(match, zone)
    found = _at(
        int(match["year"]), int(match["month"]), int(match["day"]), (int(match["hour"]), int(match["minute"])), zone
    )
    return None if found is None else found + int(match["second"] or 0)


def _month_day(match: re.Match[str], now: float, zone: tzinfo) -> float | None:
    """`Oct 24`, `Jul 27 at 4:30am`, `Jul 23rd, 2026 4:15 AM`. Without a year: the one that is nearest to now."""
    zone = _match_zone(match, zone)
    today = _local(now, zone)
    month, day = _MONTHS.index(match["month"].lower()) + 1, int(match["day"])
    clock = _hour(match)
    years = [int(match["year"])] if match["year"] else [today.year - 1, today.year, today.year + 1]
    times = [found for year in years if (found := _at(year, month, day, clock or (0, 0), zone)) is not None]
    if not times:
        return None
    nearest = min(times, key=lambda found: abs(found - now))
    if clock is None and nearest <= now < nearest + 86400.0:  # a date alone, and it is today: its end
        return nearest + 86400.0
    return nearest


def _weekday(match: re.Match[str], now: float, zone: tzinfo) -> float | None:
    zone = _match_zone(match, zone)
    clock = _hour(match)
    if clock is None:
        return None
    today = _local(now, zone)
    ahead = (_DAYS.index(match["weekday"].lower()) - today.weekday()) % 7
    found = _on_day(today + timedelta(days=ahead), clock, zone)
    return _on_day(today + timedelta(days=ahead + 7), clock, zone) if found and found < now - GRACE else found


def _clock(match: re.Match[str], now: float, zone: tzinfo) -> float | None:
    """Today, tomorrow, or just now. Yesterday is looked at too: 00:05 may read about 23:50."""
    clock = _hour(match)
    if clock is None:
        return None
    zone = _match_zone(match, zone)
    today = _local(now, zone)
    times = [_on_day(today + timedelta(days=step), clock, zone) for step in (-1, 0, 1, 2)]
    return next((found for found in times if found is not None and found > now - GRACE), None)


def _on_day(day: datetime, clock: tuple[int, int], zone: tzinfo) -> float | None:
    return _at(day.year, day.month, day.day, clock, zone)


def _http_date(value: str, now: float) -> float | None:
    from email.utils import parsedate_to_datetime  # slow to import and rarely needed

    try:
        found = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return _ahead((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), now)


def _iso_value(value: str, now: float) -> float | None:
    try:
        found = datetime.fromisoformat(value)
        return _ahead((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), now)
    except (ValueError, OverflowError):
        return None
