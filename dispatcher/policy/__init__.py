"""A tool call -> allow, ask or deny, with the rule that says so.

A call is taken apart first (`shell` reads shell text): one part for each program that it would start and for
each file that it would change. Each part is matched against an ordered list of rules, the last match wins, and the
strictest part decides. What cannot be understood asks.

Rules are help, not a wall. A program may start another one that nobody sees here; who must not push gets no key to push
with, and who must not talk to the network gets none. The gate stops a model that means well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

from dispatcher.policy.apart import SHELL_TOOLS, kind_of, parts
from dispatcher.policy.guarded import inside, touches
from dispatcher.policy.rulebook import BUILT_IN, from_plain, read, rules, to_plain
from dispatcher.policy.shell import QUOTED, SAFE, UNKNOWN
from dispatcher.policy.vocabulary import Call, Decision, Do, Part, Rule, Tag

__all__ = [
    "BUILT_IN", "Call", "Decision", "Do", "Part", "Rule", "Tag", "decide", "digest", "from_plain", "inside", "kind_of",
    "matches", "parts", "read", "rules", "shown", "to_plain",
]  # fmt: skip

_ORDER = (Do.ALLOW, Do.ASK, Do.DENY)


def decide(call: Call, ordered: Sequence[Rule]) -> Decision:
    """The strictest of all parts; of equals the first."""
    decisions = [_of_part(part, call, ordered) for part in parts(call)]
    strictest = max(decisions, key=lambda found: _ORDER.index(found.do))
    return strictest if strictest.do is not Do.ALLOW or len(decisions) == 1 else _of_all(decisions)


def _of_all(decisions: Sequence[Decision]) -> Decision:
    """An allowed line names all its parts, or how many there are."""
    first = decisions[0]
    names = "; ".join(_about(found.part) for found in decisions)
    if len(names) > 120 or any(found.rule != first.rule for found in decisions):
        rules = ", ".join(dict.fromkeys(found.rule.name for found in decisions))
        return replace(first, reason=f"{len(decisions)} parts, each allowed ({rules})")
    return replace(first, reason=f"{shown(names)} (each {first.rule.name}, {first.rule.source})")


def _about(part: Part) -> str:
    return part.why or " ".join(part.words[:8]) or part.kind


def _of_part(part: Part, call: Call, ordered: Sequence[Rule]) -> Decision:
    rule = next(rule for rule in reversed(ordered) if matches(rule, part, call))
    about = _about(part) if part.words or part.why else call.tool
    return Decision(rule.do, rule, f"{shown(about)} ({rule.name}, {rule.source})", part)


def matches(rule: Rule, part: Part, call: Call) -> bool:
    if rule.tag is not None and rule.tag not in part.tags:
        return False
    if rule.tools and not any(_is_tool(pattern, call.tool, part.kind) for pattern in rule.tools):
        return False
    if rule.network and part.kind != "network":
        return False
    if rule.mcp and not (part.kind == "mcp" and any(_is_mcp(pattern, call.tool) for pattern in rule.mcp)):
        return False
    if rule.command and not has_words(rule.command, part.words):
        return False
    return not rule.paths or any(touches(path, part, call.folder) for path in rule.paths)


def has_words(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """The program, then the other words in that order, with anything between them. A word may hold `*`."""
    if not words or not fnmatchcase(words[0], pattern[0]):
        return False
    rest = iter(words[1:])
    return all(any(fnmatchcase(word, wanted) for word in rest) for wanted in pattern[1:])


def _is_tool(pattern: str, tool: str, kind: str) -> bool:
    """`bash`, `edit` and the other plain words mean the tools of both CLIs; an MCP tool goes by its own name."""
    name = tool.lower()
    if fnmatchcase(name, pattern) or pattern == kind or (pattern in SHELL_TOOLS and kind == "shell"):
        return True
    return kind == "mcp" and _is_mcp(pattern, tool)


def _is_mcp(pattern: str, tool: str) -> bool:
    """claude: mcp__server__tool; opencode: server_tool. Server and tool, or the tool alone."""
    name, wanted = tool.lower(), pattern.lower()
    plain = name.removeprefix("mcp__").replace("__", "_")
    tails = {plain[place + 1 :] for place in range(len(plain)) if plain[place] == "_"}
    return any(fnmatchcase(text, wanted) for text in {name, plain, *tails})


# --- what an answer is bound to -----------------------------------------------------------------------------------


def digest(call: Call, *, anywhere: bool = False) -> str:
    """sha256 of tool, whole input and folder. `anywhere`: the same call in another copy of the same repository."""
    given = json.dumps(call.input, sort_keys=True, ensure_ascii=True, default=str)
    folder = call.folder
    if anywhere:
        here = json.dumps(folder)[1:-1]
        given, folder = re.sub(re.escape(here) + r"(?![\w.-])", "{folder}", given), "{folder}"
    text = json.dumps([call.tool, given, folder])
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def _marks() -> Mapping[int, str | None]:
    return {ord(UNKNOWN): "…", ord(QUOTED): "…", ord(SAFE): None}


def shown(text: str) -> str:
    """A short printable text."""
    line = " ".join(text.translate(_marks()).split())
    return line if len(line) <= 200 else line[:199] + "…"
