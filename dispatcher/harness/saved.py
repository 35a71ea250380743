"""A transcript that somebody saved: which CLI wrote it, and what it says. The content decides, never the name.

A file may hold standard output, standard error, or both mixed as `2>&1` writes them; of two runs in one file the later
one is judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dispatcher.harness import events
from dispatcher.harness.base import Channel
from dispatcher.harness.claude import Claude
from dispatcher.harness.opencode import Opencode
from dispatcher.task import Outcome

_OPENCODE_EVENTS = frozenset({"step_start", "step_finish", "text", "tool_use", "reasoning", "error", "done"})
_CLAUDE_EVENTS = frozenset({"system", "assistant", "user", "result", "rate_limit_event", "stream_event"})
_BRIDGE = frozenset({"started", "call", "retry", "summary", "tool_started", "tool_ended", "asked", "session.status"})

_OPENCODE_WORDS = re.compile(
    rb"^timestamp=\S+ +level=|^(INFO|DEBUG|WARN|ERROR) +\S|auto-rejecting|Session not found|ProviderModelNotFoundError|"
    rb'^\x1b\[91m|"name": "UnknownError"|AI_\w+Error|opencode'
)
_CLAUDE_WORDS = re.compile(
    rb"\[claude-code:|^error: |conversation found with session|deferred tool marker|--dangerously-skip-permissions|"
    rb"Settings file not found|no stdin data received|/login|Claude"
)


@dataclass(frozen=True)
class Saved:
    harness: str
    outcome: Outcome


def judge(lines: Iterable[bytes], now: float, *, zone: str = "UTC") -> Saved | None:
    """How the saved run ended; None when no line looks like one of the CLIs."""
    found: dict[str, dict[Channel, list[bytes]]] = {"opencode": {}, "claude": {}}
    last = ""
    plain: list[bytes] = []
    for line in lines:
        place = place_of(line)
        if place is None:
            plain.append(line)
            continue
        last = place[0]
        found[last].setdefault(place[1], []).append(line)
    if not last:
        return None
    parts = found[last]
    stderr = [*parts.get("stderr", []), *plain]
    harness = Opencode("opencode", zone) if last == "opencode" else Claude(zone)
    outcome = harness.read(parts.get("stdout", []), stderr, parts.get("bridge", []), None, now=now)
    return Saved(last, outcome)


def place_of(line: bytes) -> tuple[str, Channel] | None:
    """Which CLI writes such a line, and where; None for a line that anybody could have written."""
    kind = events.kind_of(line)
    head = line[:4096]
    if kind in _OPENCODE_EVENTS and b'"sessionID"' in head:
        return "opencode", "stdout"
    if kind in _CLAUDE_EVENTS or (line.startswith(b"[{") and b'"session_id"' in head):
        return "claude", "stdout"
    if kind in _BRIDGE or (line.startswith(b"{") and b'"type":"session.status"' in head):
        return "opencode", "bridge"
    if _OPENCODE_WORDS.search(head):
        return "opencode", "stderr"
    if _CLAUDE_WORDS.search(head):
        return "claude", "stderr"
    return None
