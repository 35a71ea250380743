"""What single events and the records of our plugin say, for whoever meets them: live, at the end, or on a screen."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dispatcher.failures import ErrorChannel
from dispatcher.harness import events

GOES_ON = frozenset({"tool-calls", "unknown", ""})  # finishes after which opencode asks the model again
SIDE_AGENTS = frozenset({"title", "summary"})
# The head of a call that ended well, as opencode 1.18 writes it: most of a stream, in bytes, is what follows it.
ENDED_WELL = re.compile(
    rb'\{"type": ?"tool_use", ?"timestamp": ?(?P<at>\d{1,15}), ?"sessionID": ?"(?P<session>[^"\n]{1,100})", ?"part": ?'
    rb'\{"type": ?"tool", ?(?:"tool": ?"(?P<tool>[^"\\\n]{1,100})", ?)?"callID": ?"(?P<call>[^"\n]{1,200})", ?'
    rb'(?:"tool": ?"(?P<tool_behind>[^"\\\n]{1,100})", ?)?"state": ?\{"status": ?"completed"'
)


def bridge_record(line: bytes) -> events.Object:
    """A line of the bridge file; an event of opencode itself is read like our own report of it. Empty: neither."""
    record = events.parse(line) or {}
    if record.get("type") != "session.status":
        return record
    properties = events.obj(record, "properties")
    status = events.obj(properties, "status")
    action = events.obj(status, "action").get("reason")
    return {**status, "session": properties.get("sessionID"), "action": action}


def retry_channel(record: Mapping[str, object]) -> tuple[ErrorChannel, float | None]:
    """A retry that the plugin reported, as an error channel, with the wait in seconds if the server stated it.

    opencode 1.18 waits 2, 4, 8, 16, then 30 seconds when the server states nothing; such a wait means "unknown".
    """
    at, following = events.number(record.get("at")), events.number(record.get("next"))
    attempt = events.integer(record.get("attempt")) or 1
    wait: float | None = None
    if at is not None and following is not None:
        wait = max(0.0, (following - at) / 1000.0)
        own = min(2.0 * 2.0 ** min(max(attempt, 1) - 1, 10), 30.0)
        if abs(wait - own) < 0.5:
            wait = None
    stated = following is not None and (at is None or wait is not None)
    channel = ErrorChannel(
        "opencode",
        error="retry_after" if stated else "retrying",
        message=events.string(record.get("message")),
        action=events.string(record.get("action")),
        next_try=following / 1000.0 if following is not None and stated else None,
    )
    return channel, wait


def channel_of(error: Mapping[str, object]) -> ErrorChannel:
    """opencode: {name, data: {message, statusCode, isRetryable, responseHeaders, responseBody}}."""
    data = events.obj(error.get("data"))
    return ErrorChannel(
        "opencode",
        status=events.integer(data.get("statusCode")),
        error_name=events.string(error.get("name")),
        headers=events.headers(data.get("responseHeaders")),
        message=events.string(data.get("message")) or events.string(error.get("message")),
        body=events.string(data.get("responseBody")),
    )


def call_text(part: events.Object) -> str:
    """A call in a few words: the tool and what it was about."""
    given = events.obj(part, "state", "input")
    about = next((events.string(given[key]) for key in ("command", "filePath", "url", "pattern") if key in given), "")
    return f"{events.string(part.get('tool'))}: {events.shorten(about)}" if about else events.string(part.get("tool"))
