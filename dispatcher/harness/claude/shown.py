"""Lines of claude for people."""

from __future__ import annotations

from dispatcher.harness import events
from dispatcher.harness.claude.said import call_text, deferred, deferred_text
from dispatcher.words import plural


def render(line: bytes) -> str | None:
    kind = events.kind_of(line)
    event = events.parse(line) if kind in ("assistant", "user", "result", "system") else None
    if event is None:
        return None
    if kind == "result":
        return _render_result(event)
    if kind == "system":
        return _render_system(event)
    lines = [text for part in events.items(events.obj(event, "message").get("content")) if (text := _render_part(part))]
    return "\n".join(lines) or None


def _render_result(result: events.Object) -> str:
    """What a success says was its last answer, and is there already."""
    text, turns = events.shorten(events.string(result.get("result"))), events.integer(result.get("num_turns"))
    if deferred(result):
        return f"= waits for a person: {deferred_text(result)}"
    if result.get("is_error") is True:
        return f"= failed: {text}"
    return f"= finished ({plural(turns, 'turn')})" if turns else f"= finished: {text}"


def _render_system(event: events.Object) -> str | None:
    if event.get("subtype") == "api_retry":
        return f"! trying again: {events.string(event.get('error'))} {event.get('error_status')}"
    if event.get("subtype") == "permission_denied":
        return f"! denied: {events.shorten(events.string(event.get('message')))}"
    return None


def _render_part(part: events.Object) -> str | None:
    if part.get("type") == "text":
        return events.string(part.get("text")).strip()
    if part.get("type") == "tool_use":
        denied_like: events.Object = {"tool_name": part.get("name"), "tool_input": part.get("input")}
        return f"> {call_text(denied_like)}"
    if part.get("type") == "tool_result" and part.get("is_error") is True:
        said = events.string(part.get("content")).removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
        return f"  failed: {events.shorten(said)}"
    return None
