"""What a scripted model says: plain data, read strictly, handed out one step per main call.

A script is a list of steps for one model id. A step is a JSON object:

    {"text": "I will write it.", "write": {"path": "a.txt", "content": "hello\\n"}}
    {"shell": "git add a.txt && git commit -qm 'add a'"}
    {"calls": [{"read": {"path": "a.txt"}}, {"edit": {"path": "a.txt", "old": "hello", "new": "bye"}}]}
    {"tool": {"name": "todowrite", "input": {"todos": []}}}
    {"text": "Done.", "usage": {"input": 1200, "output": 34, "cache_read": 0, "cache_write": 0}}
    {"error": {"status": 429, "message": "Rate limit exceeded", "headers": {"retry-after": "3600"}}}
    {"hang": true}                        {"drop": "middle"}                      {"text": "half", "finish": false}

Said:     `text`, then the calls: `shell`, `write`, `edit`, `read`, `tool` on the step itself, several of a kind in
          `calls`. The first four are translated to the harness's own tool names; relative paths are taken from the
          working directory that the request names. `tool` goes out as it is.
Shape:    `usage` (tokens), `model` (the id that the answer names, instead of the one that was asked for), `headers` (of
          the response, also on success: rate limit headers), `slow` (seconds before the answer), `finish` (false: the
          stream ends without one; a text: this stop reason, in the protocol's words).
Failure:  `error` {`status` 500, `message`, `type`, `headers`, `body`, `in_stream`}: without `body` (text or JSON) the
          error has the protocol's own form; `in_stream` sends status 200 and the error as an event in mid-answer.
          `hang`: true or "before" (never a byte), "headers" (status line and headers, then nothing), "middle" (half
          of the answer). `drop`: likewise, but the connection is reset.
Choice:   `when` (a text that the last prompt must contain, or {"prompt": .., "request": ..}, where `request` looks
          through the whole request body as JSON text), `repeat` (true for ever, or a number of answers).
Group:    {"when": .., "steps": [..]} gives its condition to every step in it.

Each main call takes the first step with a fitting condition that is not used up; if there is none, the first step
without a condition. So a finish prompt can be answered on its own whatever is left of the first prompt's steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
"""A JSON object whose shape only its reader knows."""

Moment = Literal["", "before", "headers", "middle"]
"""When a step stops answering; empty: it does not."""

NEUTRAL_CALLS: dict[str, frozenset[str]] = {
    "shell": frozenset({"command"}),
    "write": frozenset({"path", "content"}),
    "edit": frozenset({"path", "old", "new"}),
    "read": frozenset({"path"}),
    "tool": frozenset({"name", "input"}),
}
"""The calls a script may name, with the arguments each must have."""

_STEP_KEYS = frozenset(
    {
        "text",
        "calls",
        "model",
        "usage",
        "headers",
        "slow",
        "finish",
        "error",
        "hang",
        "drop",
        "when",
        "repeat",
        *NEUTRAL_CALLS,
    }
)
_ERROR_KEYS = frozenset({"status", "message", "type", "headers", "body", "in_stream"})


class ScriptError(ValueError):
    """A script that cannot be played; the message names the step and what is wrong with it."""


@dataclass(frozen=True)
class Call:
    """A tool call in neutral words: `kind` is a key of `NEUTRAL_CALLS`."""

    kind: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Usage:
    """Tokens as the server reports them; `input` is without what the cache read or wrote."""

    input: int = 1200
    output: int = 34
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True)
class Failure:
    """An error answer. `body` None: the protocol's own form; `kind` empty: the protocol's usual word for the status."""

    status: int = 500
    message: str = "scripted error"
    kind: str = ""
    body: str | Json | None = None
    in_stream: bool = False


@dataclass(frozen=True)
class When:
    """A condition on the request; an empty text always fits."""

    prompt: str = ""
    request: str = ""

    def __bool__(self) -> bool:
        return bool(self.prompt or self.request)

    def fits(self, prompt: str, request: str) -> bool:
        return self.prompt in prompt and self.request in request


@dataclass(frozen=True)
class Step:
    """One answer. `repeat` is the number of answers it serves, None for ever; `slow` is in seconds."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    model: str = ""
    usage: Usage = Usage()
    headers: Mapping[str, str] = field(default_factory=dict)
    slow: float = 0.0
    finish: bool | str = True
    failure: Failure | None = None
    hang: Moment = ""
    drop: Moment = ""
    when: When = When()
    repeat: int | None = 1


class Script:
    """The steps of one model and how often each was used. Not thread safe: its server calls it under a lock."""

    def __init__(self, steps: Iterable[Mapping[str, Any]]) -> None:
        self._steps = parse(steps)
        self._used = [0] * len(self._steps)

    def take(self, prompt: str, request: str) -> Step | None:
        """The step that answers this request, counted as used; None when nothing fits any more."""
        left = [n for n, step in enumerate(self._steps) if step.repeat is None or self._used[n] < step.repeat]
        fitting = [n for n in left if self._steps[n].when and self._steps[n].when.fits(prompt, request)]
        free = [n for n in left if not self._steps[n].when]
        for number in fitting[:1] or free[:1]:
            self._used[number] += 1
            return self._steps[number]
        return None


def parse(steps: Iterable[Mapping[str, Any]], when: When | None = None) -> list[Step]:
    """Read steps and groups of steps. Raises `ScriptError` for an unknown key or a wrong shape."""
    found: list[Step] = []
    for number, raw in enumerate(steps, start=1):
        try:
            if "steps" in raw:
                _refuse_unknown(raw, frozenset({"when", "steps"}))
                found += parse(raw["steps"], _when(raw["when"]))
            else:
                found.append(_step(raw, when or When()))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ScriptError(f"step {number}: {error}") from error
    return found


def _step(raw: Mapping[str, Any], inherited: When) -> Step:
    _refuse_unknown(raw, _STEP_KEYS)
    error: Json | None = raw.get("error")
    repeat = raw.get("repeat", 1)
    return Step(
        text=raw.get("text", ""),
        calls=_calls(raw),
        model=raw.get("model", ""),
        usage=Usage(**raw.get("usage", {})),
        headers={**raw.get("headers", {}), **(error or {}).get("headers", {})},
        slow=float(raw.get("slow", 0)),
        finish=raw.get("finish", True),
        failure=None if error is None else _failure(error),
        hang=_moment(raw.get("hang", "")),
        drop=_moment(raw.get("drop", "")),
        when=_when(raw["when"]) if "when" in raw else inherited,
        repeat=None if repeat is True else int(repeat),
    )


def _calls(raw: Mapping[str, Any]) -> tuple[Call, ...]:
    here = [{kind: raw[kind]} for kind in raw if kind in NEUTRAL_CALLS]
    return tuple(_call(one) for one in [*here, *raw.get("calls", [])])


def _call(raw: Mapping[str, Any]) -> Call:
    if len(raw) != 1 or (kind := next(iter(raw))) not in NEUTRAL_CALLS:
        raise ScriptError(f"a call is one of {', '.join(NEUTRAL_CALLS)}, not {dict(raw)!r}")
    value = raw[kind]
    arguments = {"command": value} if kind == "shell" and isinstance(value, str) else dict(value)
    if set(arguments) != NEUTRAL_CALLS[kind]:
        raise ScriptError(f"{kind} takes {', '.join(sorted(NEUTRAL_CALLS[kind]))}, not {', '.join(sorted(arguments))}")
    return Call(kind, arguments)


def _failure(raw: Mapping[str, Any]) -> Failure:
    _refuse_unknown(raw, _ERROR_KEYS)
    renamed = {"kind" if key == "type" else key: value for key, value in raw.items() if key != "headers"}
    return Failure(**renamed)


def _when(raw: str | Mapping[str, str]) -> When:
    return When(prompt=raw) if isinstance(raw, str) else When(**raw)


def _moment(raw: object) -> Moment:
    match raw:
        case True:
            return "before"
        case False:
            return ""
        case "" | "before" | "headers" | "middle" as moment:
            return moment
    raise ScriptError(f"{raw!r} is none of true, before, headers, middle")


def _refuse_unknown(raw: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(set(raw) - known):
        raise ScriptError(f"unknown key {', '.join(unknown)}; known are {', '.join(sorted(known))}")
