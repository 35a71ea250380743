"""The words of the policy: a call, its parts, a rule, a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Do(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Tag(StrEnum):
    """What a part would do, as far as the built-in rules care."""

    LEAVES = "leaves"  # something leaves the machine
    DESTROYS = "destroys"  # it cannot be undone
    FETCHED = "fetched"  # code from elsewhere is run
    UNCLEAR = "unclear"  # cannot be told
    NETWORK = "network"
    MCP = "mcp"
    SETTINGS = "settings"  # settings that make a CLI, git or a shell run something later
    ANSWERS = "answers"  # the worker would answer for the person


@dataclass(frozen=True)
class Call:
    """One call of a tool. `folder` is where it would run, absolute; `agent` names a sub-agent."""

    tool: str
    input: Mapping[str, object]
    folder: str
    agent: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule. Everything that is given must fit; a rule without any condition fits every call."""

    do: Do
    name: str
    tools: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    network: bool = False
    mcp: tuple[str, ...] = ()
    tag: Tag | None = None
    remember: bool = True
    source: str = "built in"


@dataclass(frozen=True)
class Part:
    """One thing that a call would do. `words`: a program with its arguments, its own wrappers taken off."""

    kind: str  # shell, edit, read, network, mcp, own
    words: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()  # files that it changes
    mentions: tuple[str, ...] = ()  # texts that may name a file that it changes
    tags: frozenset[Tag] = frozenset()
    why: str = ""


@dataclass(frozen=True)
class Decision:
    do: Do
    rule: Rule
    reason: str  # in words, for the person and for the model
    part: Part
