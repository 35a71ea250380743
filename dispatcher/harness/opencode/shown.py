"""Lines of opencode for people."""

from __future__ import annotations

from dispatcher.harness import events
from dispatcher.harness.opencode.said import GOES_ON, call_text, channel_of


def render(line: bytes) -> str | None:
    kind = events.kind_of(line)
    event = events.parse(line) if kind in ("text", "tool_use", "error", "step_finish", "done") else None
    if event is None:
        return None
    part = events.obj(event, "part")
    if kind == "text":
        return events.string(part.get("text")).strip() or None
    if kind == "tool_use":
        state = events.obj(part, "state")
        code = events.integer(
            events.obj(state, "metadata").get("exit")
        )  # of its bash, which is "completed" all the same
        error = events.string(state.get("error")) or (f"exit code {code}" if code else "")
        return f"> {call_text(part)}" + (f"\n  failed: {events.shorten(error)}" if error else "")
    if kind == "error":
        channel = channel_of(events.obj(event, "error"))
        status = f" {channel.status}" if channel.status else ""
        return f"! {channel.error_name}{status}: {events.shorten(channel.message)}"
    reason = events.string(part.get("reason")) if kind == "step_finish" else "done"
    return None if reason in GOES_ON else f"= finished ({reason})"
