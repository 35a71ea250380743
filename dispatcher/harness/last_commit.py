"""What the worker was told when it last tried to commit: the words of a hook that refused stand nowhere else.

That a hook refused is proved by git's own trace. These words only say why, to a person and to whoever goes on; nothing
is decided by them. opencode 1.18: a `tool_use` event has the command and its output. claude 2.1: the command is in a
`tool_use` part of the assistant, its output in the `tool_result` part of the same id.
"""

from __future__ import annotations

from collections.abc import Iterable

from dispatcher.harness import events

LIMIT = 2_000  # characters, from the end


def answer(stdout: Iterable[bytes]) -> str:
    """The output of the last command with the word `commit` in it; empty when there is none."""
    asked: set[str] = set()
    said = ""
    for line in stdout:
        event = events.parse(line) if b"commit" in line or b"tool_result" in line else None
        if event is None:
            continue
        state = events.obj(event, "part", "state")
        if _commits(events.obj(state, "input")):
            said = events.string(state.get("output")) or events.string(state.get("error")) or said
        for part in events.items(events.obj(event, "message").get("content")):
            if part.get("type") == "tool_use" and _commits(events.obj(part, "input")):
                asked.add(events.string(part.get("id")))
            elif part.get("type") == "tool_result" and events.string(part.get("tool_use_id")) in asked:
                said = _text(part.get("content")) or said
    return said.strip()[-LIMIT:]


def _commits(given: events.Object) -> bool:
    return "commit" in events.string(given.get("command"))


def _text(content: object) -> str:
    return events.string(content) or "\n".join(events.string(part.get("text")) for part in events.items(content))
