"""A transcript that somebody saved: which CLI wrote it, and what it says. The content decides, never the name.

A file may hold standard output, standard error, or both mixed as `2>&1` writes them; of two runs in one file the later
one is judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dispatcher.harness import events
from dispatcher.harness.base import Channel
from dispatcher.harness.claude import Claude
from dispatcher.harness.opencode import Opencode
from dispatcher.task import Outcome, OutcomeClass

_OPENCODE_EVENTS = frozenset({"step_start", "step_finish", "text", "tool_use", "reasoning", "error", "done"})
_CLAUDE_EVENTS = frozenset({"system", "assistant", "user", "result", "rate_limit_event", "stream_event"})
_BRIDGE = frozenset({"started", "call", "retry", "summary", "tool_started", "tool_ended", "asked", "session.status"})

_OPENCODE_LOG = re.compile(rb"timestamp=\S+ +level=|(INFO|DEBUG|WARN|ERROR) +(\d{4}-|service=)")
_OPENCODE_WORDS = re.compile(
    rb"auto-rejecting|Session not found|ProviderModelNotFoundError|"
    rb'^\x1b\[91m|"name": "UnknownError"|AI_\w+Error|opencode'
)
_CLAUDE_WORDS = re.compile(
    rb"\[claude-code:|^error: |conversation found with session|deferred tool marker|--dangerously-skip-permissions|"
    rb"Settings file not found|no stdin data received|/login|Claude"
)
# Without an event or a log line, words tell a CLI only in a text that is as short as its last ones are.
_FEW = 20  # lines

_STATED = re.compile(
    rb'"(?:timestamp|at)"\s*:\s*(?:(?P<ms>\d{13})\b|"(?P<iso>20\d\d-\d\d-\d\dT[\d:.]{8,16}Z?)")|'
    rb"^timestamp=(?P<log>20\d\d-\d\d-\d\dT[\d:.]{8,16}Z?)"
)


UNPROVED = frozenset({OutcomeClass.LOST})  # what is missing proves it, so no line does


@dataclass(frozen=True)
class Saved:
    harness: str
    outcome: Outcome


def judge(lines: Iterable[bytes], now: float, *, zone: str = "UTC") -> Saved | None:
    """How the saved run ended; None when no line looks like one of the CLIs."""
    found: dict[str, dict[Channel, list[bytes]]] = {"opencode": {}, "claude": {}}
    last = ""
    sure = False
    plain: list[bytes] = []
    for line in lines:
        place = place_of(line)
        if place is None:
            if line.strip():
                plain.append(line)
            continue
        last = place[0]
        sure = sure or place[1] != "stderr" or _OPENCODE_LOG.match(line) is not None
        found[last].setdefault(place[1], []).append(line)
    if not last or not (sure or len(plain) < _FEW):
        return None
    parts = found[last]
    stderr = [*parts.get("stderr", []), *plain]
    harness = Opencode("opencode", zone) if last == "opencode" else Claude(zone)
    outcome = harness.read(parts.get("stdout", []), stderr, parts.get("bridge", []), None, now=now)
    return Saved(last, outcome)


def time_of(lines: Sequence[bytes]) -> float | None:
    """When the run last said something, as its own lines state it: "resets 3am" means the next one from there."""
    for line in reversed(lines):
        if place_of(line) is None:
            continue
        stated = list(_STATED.finditer(line))
        for match in reversed(stated):
            if match["ms"]:
                return int(match["ms"]) / 1000.0
            text = (match["iso"] or match["log"]).decode("ascii").removesuffix("Z") + "+00:00"
            try:
                return datetime.fromisoformat(text).timestamp()
            except ValueError:
                continue
    return None


def decisive(lines: Sequence[bytes], found: Saved, now: float, *, zone: str = "UTC") -> int | None:
    """Which line proves it: with it the run is judged so, and with only what comes before it is not."""
    if found.outcome.kind in UNPROVED:
        return None

    def told(end: int) -> bool:
        part = judge(lines[:end], now, zone=zone)
        return part is not None and _same(part, found)

    return first_with(len(lines), told)


def _same(one: Saved, other: Saved) -> bool:
    """Judged alike, about the same run."""
    here, there = one.outcome, other.outcome
    same_run = one.harness == other.harness and here.session_id == there.session_id
    return same_run and (here.kind, here.proof) == (there.kind, there.proof)


def first_with(count: int, true: Callable[[int], bool]) -> int | None:
    """A place whose line turns `true` on: true of the lines up to it, false of those before it. By halving."""
    if not count or not true(count):
        return None
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high - 1


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
    if _OPENCODE_LOG.match(head) or _OPENCODE_WORDS.search(head):
        return "opencode", "stderr"
    if _CLAUDE_WORDS.search(head):
        return "claude", "stderr"
    return None
