"""What a failure holds, and until when: the reset that the server states, else a guess by the kind of limit."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dispatcher import resets
from dispatcher.failures.channel import ErrorChannel, error_object, texts_of
from dispatcher.failures.table import Row, Until
from dispatcher.task import HoldRequest, HoldScope

_MODEL_WINDOWS = ("opus", "sonnet", "haiku")


def hold_of(row: Row, channel: ErrorChannel, now: float, zone: str) -> HoldRequest | None:
    if row.scope is None or row.until is Until.NO_HOLD:
        return None
    window = row.window or _window(channel)
    scope = row.scope
    if window is not None and any(name in window for name in _MODEL_WINDOWS):
        scope = HoldScope.MODEL  # a window of one model family leaves the others free
    if row.until is Until.PERSON:
        return HoldRequest(scope, None, row.reason, window)
    stated = stated_reset(channel, now, default_zone=zone)
    until = _unstated(row.until, window, now) if stated is None else stated
    return HoldRequest(scope, resets.bound(until, now), row.reason, window, stated is not None)


def _unstated(until: Until, window: str | None, now: float) -> float:
    """A guess that is short enough to be cheap when it is wrong; a second hit makes it longer."""
    if until is Until.MIDNIGHT:
        return resets.next_midnight(now)
    if until is Until.STATED:
        return now + resets.SOON
    if window in ("seven_day", "month") or (window or "").startswith("seven_day"):
        return now + 6 * 3600.0
    return resets.next_midnight(now) if window == "day" else now + 3600.0


def _window(channel: ErrorChannel) -> str | None:
    info = channel.rate_limit_info or {}
    named = info.get("rateLimitType")
    if isinstance(named, str) and named:
        return named
    text = " ".join(texts_of(channel)).lower()
    for pattern, window in (
        (r"opus weekly", "seven_day_opus"), (r"sonnet weekly", "seven_day_sonnet"), (r"\bweekly\b", "seven_day"),
        (r"5[- ]hour|five[- ]hour|session limit", "five_hour"), (r"\bmonthly\b", "month"),
        (r"\bdaily\b|per[- ]day", "day"),
    ):  # fmt: skip
        if re.search(pattern, text):
            return window
    return None


def stated_reset(channel: ErrorChannel, now: float, *, default_zone: str = "UTC") -> float | None:
    """When the server says that it is over: structured fields first, then headers, then words."""
    info = channel.rate_limit_info or {}
    found = resets.epoch(info.get("resetsAt"), now)
    if found is None and channel.next_try is not None:
        found = resets.epoch(channel.next_try, now)
    if found is None:
        found = _body_reset(channel.body, now)
    if found is None:
        found = _header_reset(channel.headers, now)
    texts = (channel.result_text, channel.message, channel.body, *channel.log_lines)
    for text in texts if found is None else ():
        found = resets.parse(text, now, default_zone=default_zone) if text else None
        if found is not None:
            break
    return found


_HEADER_ORDER = ("anthropic-ratelimit-unified-reset", "retry-after-ms", "retry-after", "x-ratelimit-reset")


def _header_reset(headers: Mapping[str, str], now: float) -> float | None:
    lower = {str(name).lower(): str(value) for name, value in headers.items()}
    for name in _HEADER_ORDER:
        if name in lower and (found := resets.header(name, lower[name], now)) is not None:
            return found
    return None


def _body_reset(body: str, now: float) -> float | None:
    error = error_object(body)
    if error is None:
        return None
    found = resets.epoch(error.get("resets_at"), now)
    if found is None:
        found = resets.after(error.get("resets_in_seconds"), now)
    metadata = error.get("metadata")
    if found is None and isinstance(metadata, dict) and isinstance(metadata.get("headers"), dict):
        found = _header_reset(metadata["headers"], now)
    return found
