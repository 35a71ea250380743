"""What a harness says about its failure, in fields; a body, a status in a text and a log line are taken apart here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dispatcher import resets

TEXT_LIMIT = 20_000  # of one text that patterns are run on


@dataclass(frozen=True)
class ErrorChannel:
    """What a harness said about its failure. Everything is optional; empty means that it said nothing."""

    harness: str = ""
    status: int | None = None  # HTTP status, as a number
    error_name: str = ""  # opencode: error.name
    error_type: str = ""  # the provider's error.type or error.code
    api_error: str = ""  # claude: result.api_error
    error: str = ""  # claude: the enum of the synthetic assistant event, or of api_retry
    terminal_reason: str = ""  # claude
    subtype: str = ""  # claude: subtype of the result event
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = ""  # the text of the error event
    body: str = ""  # the provider's response body
    log_lines: tuple[str, ...] = ()  # lines of level ERROR and of the CLI's own stderr, oldest first
    result_text: str = ""  # only of a result that says it is an error
    rate_limit_info: Mapping[str, object] | None = None  # claude: rate_limit_event
    action: str = ""  # opencode: reason of the action in session.status
    next_try: float | None = None  # opencode: when it will try again, epoch seconds, if the server stated it


_STATUS_IN_TEXT = (
    re.compile(r"\bAPI Error:? ?\(?(?:Repeated )?(\d{3})\b"),
    re.compile(r"\bRequest rejected \((\d{3})\)"),
    re.compile(r"\bstatus ?(?:code)?[\"']?\s*[:= ]\s*[\"']?(\d{3})\b", re.I),
    re.compile(r"[\"']code[\"']\s*:\s*[\"']?(\d{3})\b"),
    re.compile(r"^(?:Error: )?(?:HTTP )?(\d{3})(?= (?:\{|[a-z]+_error|[A-Z][a-z]+))"),
)


def texts_of(channel: ErrorChannel) -> Iterator[str]:
    for text in (channel.result_text, channel.message, channel.body, *channel.log_lines):
        if text:
            yield resets.normalise(text[:TEXT_LIMIT])


def window_rejected(info: Mapping[str, object] | None) -> bool:
    """Whether a claude rate_limit_event means that a window is used up.

    claude 2.1: `rejected` with overage in use is a run that goes on; `rejected` without a window and without a reset
    is how it books a plain 429.
    """
    if not info or info.get("status") != "rejected" or info.get("isUsingOverage") is True:
        return False
    return bool(info.get("resetsAt") or info.get("rateLimitType"))


def enriched(channel: ErrorChannel) -> ErrorChannel:
    """Fill in what a body or a text states and no field does."""
    error = error_object(channel.body) or {}
    kind = channel.error_type or _string(error.get("type"))
    code = _string(error.get("code"))
    if (not kind or kind == "invalid_request_error" or kind == "error") and code and not code.isdigit():
        kind = code
    message = channel.message or _string(error.get("message"))
    status = channel.status or _http(error.get("code")) or _stated_status(channel.result_text or message)
    return replace(channel, error_type=kind, message=message, status=status)


def error_object(body: str) -> dict[str, object] | None:
    """The innermost `error` object of a JSON body."""
    if "{" not in body:
        return None
    try:
        value = json.loads(body[body.index("{") : body.rindex("}") + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    inner = value.get("error")
    return inner if isinstance(inner, dict) else value


def _string(value: object) -> str:
    return (
        value
        if isinstance(value, str)
        else str(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else ""
    )


def _http(value: object) -> int | None:
    text = _string(value)
    return int(text) if text.isdecimal() and len(text) == 3 and 400 <= int(text) < 600 else None


def _stated_status(text: str) -> int | None:
    line = resets.normalise(text[:TEXT_LIMIT])
    for pattern in _STATUS_IN_TEXT:
        if (match := pattern.search(line)) and (status := _http(match[1])) is not None:
            return status
    return None


def of_line(line: str, harness: str) -> ErrorChannel:
    """One log line as a channel of its own. It may hold the provider's answer as JSON."""
    text = line[:TEXT_LIMIT]
    brace = text.find("{")
    body = text[brace:] if brace >= 0 else ""
    return enriched(
        ErrorChannel(
            harness, status=_stated_status(text), body="" if error_object(body) is None else body, log_lines=(text,)
        )
    )
