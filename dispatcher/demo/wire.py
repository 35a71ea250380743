"""The two protocols a scripted model speaks: OpenAI chat completions and Anthropic messages.

Pure translation: a request body to the few things a script asks about, a step to the bytes of an answer. Checked
against opencode 1.18 (`@ai-sdk/openai-compatible`) and claude 2.1.332; both name their working directory in the
system text.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from dispatcher.demo.script import Call, Failure, Json, Step

_WORKING_DIRECTORY = re.compile(r"[Ww]orking directory: ([^\n]+)")
_REMINDER = "<system-reminder>"

_OPENAI_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "insufficient_quota",
    404: "model_not_found",
    429: "rate_limit_error",
}
_ANTHROPIC_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class ToolUse:
    """A tool call in the words of one harness."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True)
class Answer:
    """A step made ready for one request: paths absolute, tools in the harness's words."""

    number: int
    model: str
    step: Step
    tools: tuple[ToolUse, ...]


class Wire(Protocol):
    """One protocol. `frames` are server-sent events in order; without a finish the closing ones are left out."""

    name: str

    def tool(self, call: Call, folder: str) -> tuple[str, Json]: ...
    def error(self, failure: Failure) -> Json: ...
    def whole(self, answer: Answer) -> Json: ...
    def frames(self, answer: Answer) -> Iterator[bytes]: ...
    def error_frame(self, failure: Failure) -> bytes: ...


def texts(message: Json) -> list[str]:
    """The texts of one message, of either protocol; tool results are not among them."""
    content = message.get("content") or []
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") == "text"]


def last_prompt(body: Json) -> str:
    """What was asked last: the last user text that is not a reminder by the CLI itself."""
    for message in reversed(body.get("messages", [])):
        if message.get("role") == "user":
            said = [text for text in texts(message) if not text.startswith(_REMINDER)]
            if said:
                return "\n".join(said)
    return ""


def system_text(body: Json) -> str:
    """Everything the CLI tells the model by itself: the system prompt, wherever the protocol puts it."""
    messages = [{"content": body.get("system")}, *body.get("messages", [])]
    told = [message for message in messages if message.get("role", "system") == "system"]
    return "\n".join(text for message in told for text in texts(message))


def offered_tools(body: Json) -> tuple[str, ...]:
    return tuple(str(tool.get("function", tool).get("name", "")) for tool in body.get("tools") or [])


def working_directory(body: Json) -> str:
    """The folder the request says the worker is in; empty if it says nothing."""
    found = _WORKING_DIRECTORY.search(system_text(body))
    return found[1].strip() if found else ""


def prepare(wire: Wire, step: Step, body: Json, number: int) -> Answer:
    folder = working_directory(body)
    named = [wire.tool(call, folder) for call in step.calls]
    tools = tuple(ToolUse(f"call_{number}_{place}", name, given) for place, (name, given) in enumerate(named))
    return Answer(number, step.model or str(body.get("model", "")), step, tools)


def _halves(text: str) -> list[str]:
    """Text as it streams: in two pieces, so that an answer has a middle."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _sse(data: Json | str, event: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return ((f"event: {event}\n" if event else "") + f"data: {text}\n\n").encode()


class OpenAI:
    """Chat completions, with opencode's tools."""

    name = "openai"

    def tool(self, call: Call, folder: str) -> tuple[str, Json]:
        given = call.arguments
        path = posixpath.join(folder, given.get("path", ""))
        if call.kind == "shell":
            return "bash", {"command": given["command"], "description": "Scripted command"}
        if call.kind == "write":
            return "write", {"filePath": path, "content": given["content"]}
        if call.kind == "edit":
            return "edit", {"filePath": path, "oldString": given["old"], "newString": given["new"]}
        if call.kind == "read":
            return "read", {"filePath": path}
        return given["name"], given["input"]

    def error(self, failure: Failure) -> Json:
        kind = failure.kind or _OPENAI_ERRORS.get(failure.status, "server_error")
        return {"error": {"message": failure.message, "type": kind, "param": None, "code": kind}}

    def error_frame(self, failure: Failure) -> bytes:
        return _sse(self.error(failure))

    def whole(self, answer: Answer) -> Json:
        calls = [{"id": use.id, "type": "function", "function": self._function(use)} for use in answer.tools]
        message: Json = {"role": "assistant", "content": answer.step.text or None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._reason(answer)}
        return {**self._head(answer, "chat.completion"), "choices": [choice], "usage": self._usage(answer)}

    def frames(self, answer: Answer) -> Iterator[bytes]:
        yield self._chunk(answer, {"role": "assistant", "content": ""})
        for piece in _halves(answer.step.text):
            yield self._chunk(answer, {"content": piece})
        for place, use in enumerate(answer.tools):
            call = {"index": place, "id": use.id, "type": "function", "function": self._function(use)}
            yield self._chunk(answer, {"tool_calls": [call]})
        if answer.step.finish:
            yield self._chunk(answer, {}, self._reason(answer))
            last = {**self._head(answer, "chat.completion.chunk"), "choices": [], "usage": self._usage(answer)}
            yield _sse(last)
            yield _sse("[DONE]")

    def _chunk(self, answer: Answer, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _sse({**self._head(answer, "chat.completion.chunk"), "choices": [choice]})

    @staticmethod
    def _head(answer: Answer, kind: str) -> Json:
        return {"id": f"chatcmpl-{answer.number}", "object": kind, "created": 0, "model": answer.model}

    @staticmethod
    def _function(use: ToolUse) -> Json:
        return {"name": use.name, "arguments": json.dumps(use.input)}

    @staticmethod
    def _reason(answer: Answer) -> str:
        if isinstance(answer.step.finish, str):
            return answer.step.finish
        return "tool_calls" if answer.tools else "stop"

    @staticmethod
    def _usage(answer: Answer) -> Json:
        usage = answer.step.usage
        prompt = usage.input + usage.cache_read + usage.cache_write
        return {
            "prompt_tokens": prompt,
            "completion_tokens": usage.output,
            "total_tokens": prompt + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        }


class Anthropic:
    """Messages, with claude's tools."""

    name = "anthropic"

    def tool(self, call: Call, folder: str) -> tuple[str, Json]:
        given = call.arguments
        path = posixpath.join(folder, given.get("path", ""))
        if call.kind == "shell":
            return "Bash", {"command": given["command"], "description": "Scripted command"}
        if call.kind == "write":
            return "Write", {"file_path": path, "content": given["content"]}
        if call.kind == "edit":
            return "Edit", {"file_path": path, "old_string": given["old"], "new_string": given["new"]}
        if call.kind == "read":
            return "Read", {"file_path": path}
        return given["name"], given["input"]

    def error(self, failure: Failure) -> Json:
        kind = failure.kind or _ANTHROPIC_ERRORS.get(failure.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": failure.message}, "request_id": "req_scripted"}

    def error_frame(self, failure: Failure) -> bytes:
        return _sse(self.error(failure), "error")

    def whole(self, answer: Answer) -> Json:
        content: list[Json] = [{"type": "text", "text": answer.step.text}] if answer.step.text else []
        content += [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input} for use in answer.tools]
        return self._message(answer, content, self._reason(answer), answer.step.usage.output)

    def frames(self, answer: Answer) -> Iterator[bytes]:
        yield self._event("message_start", message=self._message(answer, [], None, 1))
        if answer.step.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in _halves(answer.step.text)]
            yield from self._block(0, {"type": "text", "text": ""}, deltas)
        for place, use in enumerate(answer.tools, start=1 if answer.step.text else 0):
            start = {"type": "tool_use", "id": use.id, "name": use.name, "input": {}}
            yield from self._block(place, start, [{"type": "input_json_delta", "partial_json": json.dumps(use.input)}])
        if answer.step.finish:
            stop = {"stop_reason": self._reason(answer), "stop_sequence": None}
            yield self._event("message_delta", delta=stop, usage={"output_tokens": answer.step.usage.output})
            yield self._event("message_stop")

    def _block(self, place: int, start: Json, deltas: list[Json]) -> Iterator[bytes]:
        yield self._event("content_block_start", index=place, content_block=start)
        for delta in deltas:
            yield self._event("content_block_delta", index=place, delta=delta)
        yield self._event("content_block_stop", index=place)

    @staticmethod
    def _event(kind: str, **data: Any) -> bytes:
        return _sse({"type": kind, **data}, kind)

    @staticmethod
    def _message(answer: Answer, content: list[Json], reason: str | None, output: int) -> Json:
        usage = answer.step.usage
        return {
            "id": f"msg_{answer.number:04}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input,
                "cache_read_input_tokens": usage.cache_read,
                "cache_creation_input_tokens": usage.cache_write,
                "output_tokens": output,
            },
        }

    @staticmethod
    def _reason(answer: Answer) -> str:
        if isinstance(answer.step.finish, str):
            return answer.step.finish
        return "tool_use" if answer.tools else "end_turn"
