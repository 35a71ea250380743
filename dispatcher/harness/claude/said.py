"""What single events of claude say, for whoever meets them: live, at the end, or on a person's screen."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dispatcher.failures import ErrorChannel
from dispatcher.harness import events

SYNTHETIC = "<synthetic>"  # the model name of messages that the CLI wrote itself
# The head of a call's result as claude 2.1 writes it; most of a stream, in bytes, is what follows such heads.
RESULT_HEAD = b'{"type":"user","message":{"role":"user","content":[{"tool_use_id":"'


def deferred(result: Mapping[str, object]) -> bool:
    """A call waits for a person. A second deferral has no terminal_reason, so the stop reason is what to look at."""
    return result.get("stop_reason") == "tool_deferred" or isinstance(result.get("deferred_tool_use"), dict)


def deferred_text(result: Mapping[str, object]) -> str:
    call = events.obj(result.get("deferred_tool_use"))
    return f"{events.string(call.get('name'))}: {events.shorten(json.dumps(call.get('input'), ensure_ascii=False))}"


def result_channel(
    result: Mapping[str, object], synthetic: Mapping[str, object], limits: Mapping[str, object] | None
) -> ErrorChannel:
    """The error channel of a failed result, with what the synthetic message and the last limit event add to it."""
    errors = result.get("errors")
    listed = "; ".join(str(item) for item in errors) if isinstance(errors, list) else ""
    parameters = events.obj(synthetic.get("api_error_params"), "rate_limit_info")
    return ErrorChannel(
        "claude",
        status=events.integer(result.get("api_error_status")) or events.integer(synthetic.get("api_error_status")),
        error_type=events.string(result.get("api_error_type")) or events.string(synthetic.get("api_error_type")),
        api_error=events.string(result.get("api_error")) or events.string(synthetic.get("api_error")),
        error=events.string(synthetic.get("error")),
        terminal_reason=events.string(result.get("terminal_reason")),
        subtype=events.string(result.get("subtype")),
        message=listed,
        result_text=events.string(result.get("result")) or _text_of(synthetic),
        rate_limit_info=parameters or limits,
    )


def _text_of(event: Mapping[str, object]) -> str:
    parts = events.items(events.obj(event.get("message")).get("content"))
    return " ".join(events.string(part.get("text")) for part in parts if part.get("type") == "text")


def call_text(item: Mapping[str, object]) -> str:
    given = events.obj(item.get("tool_input"))
    about = next((events.string(given[key]) for key in ("command", "file_path", "url", "pattern") if key in given), "")
    name = events.string(item.get("tool_name"))
    return f"{name}: {events.shorten(about)}" if about else name
