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
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from dispatcher.errors import BadInput
from dispatcher.policy import known, shell
from dispatcher.policy.shell import QUOTED, UNKNOWN


class Do(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_ORDER = (Do.ALLOW, Do.ASK, Do.DENY)


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


# --- the rules ----------------------------------------------------------------------------------------------------

BUILT_IN: tuple[Rule, ...] = (
    Rule(Do.ALLOW, "harmless"),
    Rule(Do.ASK, "leaves-the-machine", tag=Tag.LEAVES),
    Rule(Do.ASK, "cannot-be-undone", tag=Tag.DESTROYS),
    Rule(Do.ASK, "runs-fetched-code", tag=Tag.FETCHED),
    Rule(Do.ASK, "changes-settings", tag=Tag.SETTINGS),
    Rule(Do.ASK, "not-understood", tag=Tag.UNCLEAR),
    Rule(Do.ASK, "network-tool", network=True),
    Rule(Do.ASK, "mcp-tool", mcp=("*",)),
)
"""What holds without a word in models.yaml: what leaves the machine or cannot be undone waits for a person."""

OPEN: tuple[Rule, ...] = (Rule(Do.ALLOW, "tools-full"),)
"""What holds for `tools: full`: nothing is asked, unless models.yaml or the brief says so."""

LAST: tuple[Rule, ...] = (Rule(Do.DENY, "no-own-answers", tag=Tag.ANSWERS),)
"""What nobody can switch off."""

_KEYS = ("name", "tool", "command", "path", "network", "mcp", "do", "remember")


def rules(
    configured: Iterable[tuple[Mapping[str, object], str]], brief: Iterable[Mapping[str, object]], *, full: bool = False
) -> tuple[Rule, ...]:
    """All rules in order. `configured`: fields of a rule and where it stands, for errors. Raises BadInput."""
    own = [read(fields, source) for fields, source in configured]
    of_brief = [read(fields, f"rule {number} of the brief") for number, fields in enumerate(brief, start=1)]
    return (*(OPEN if full else BUILT_IN), *own, *of_brief, *LAST)


def read(fields: Mapping[str, object], source: str) -> Rule:
    """A rule as written: {tool, command, path, network, mcp, do, remember, name}; `do` left out means ask."""
    for key in fields:
        if key not in _KEYS:
            raise BadInput(f"{source}: an approval rule has no {key!r}", hint=f"known: {', '.join(_KEYS)}")
    do = str(fields.get("do", Do.ASK))
    if do not in list(Do):
        raise BadInput(f"{source}: `do` is {do!r}", hint="it is allow, ask or deny")
    remember = fields.get("remember")
    if remember not in (None, "never"):
        raise BadInput(f"{source}: `remember` can only be `never`", hint="leave it out to allow `approve --remember`")
    if fields.get("network") not in (None, True):
        raise BadInput(f"{source}: `network` can only be true", hint="leave it out for all other tools")
    command = _texts(fields.get("command"), source, "command")
    if len(command) > 1:
        raise BadInput(f"{source}: `command` is one text, such as git push", hint="write a rule for each")
    mcp = ("*",) if fields.get("mcp") is True else _texts(fields.get("mcp"), source, "mcp")
    words = tuple(command[0].split()) if command else ()
    found = Rule(
        Do(do),
        str(fields.get("name") or _named(fields)),
        tools=tuple(text.lower() for text in _texts(fields.get("tool"), source, "tool")),
        command=words,
        paths=_texts(fields.get("path"), source, "path"),
        network=fields.get("network") is True,
        mcp=mcp,
        remember=remember is None,
        source=source,
    )
    if words and found.paths:
        raise BadInput(f"{source}: `command` and `path` do not go together", hint="write two rules")
    return found


def _named(fields: Mapping[str, object]) -> str:
    about = [str(fields[key]) for key in ("tool", "command", "path", "mcp") if fields.get(key) not in (None, True)]
    return " ".join(about) or ("network" if fields.get("network") else "mcp" if fields.get("mcp") else "everything")


def _texts(value: object, source: str, key: str) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [] if value is None else [value]
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise BadInput(f"{source}: `{key}` must be a text or a list of texts", hint="write it in quotes")
    return tuple(str(item) for item in items)


def to_plain(rule: Rule) -> dict[str, object]:
    """For attempt.json."""
    return {**vars(rule), "do": str(rule.do), "tag": None if rule.tag is None else str(rule.tag)}


def from_plain(values: Mapping[str, object]) -> Rule:
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    tag = fields.get("tag")
    return Rule(**{**fields, "do": Do(str(fields["do"])), "tag": None if tag is None else Tag(str(tag))})  # type: ignore[arg-type]


# --- deciding -----------------------------------------------------------------------------------------------------


def decide(call: Call, ordered: Sequence[Rule]) -> Decision:
    """The strictest of all parts; of equals the first."""
    guarded = tuple(path for rule in ordered for path in rule.paths)
    decisions = [_of_part(part, call, ordered) for part in parts(call, guarded)]
    return max(decisions, key=lambda found: _ORDER.index(found.do))


def _of_part(part: Part, call: Call, ordered: Sequence[Rule]) -> Decision:
    rule = next(rule for rule in reversed(ordered) if matches(rule, part, call))
    about = part.why or (" ".join(part.words[:8]) if part.words else call.tool)
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
    return not rule.paths or any(_touches(path, part, call.folder) for path in rule.paths)


def has_words(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """The program, then the other words in that order, with anything between them. A word may hold `*`."""
    if not words or not fnmatchcase(words[0], pattern[0]):
        return False
    rest = iter(words[1:])
    return all(any(fnmatchcase(word, wanted) for word in rest) for wanted in pattern[1:])


_SHELL = frozenset({"bash", "shell", "powershell"})
_EDIT = frozenset({"edit", "write", "multiedit", "notebookedit", "patch", "apply_patch"})
_READ = frozenset({"read", "glob", "grep", "list", "ls", "lsp", "notebookread"})
_NETWORK = frozenset({"webfetch", "websearch", "codesearch"})
_OWN = frozenset(
    {
        "todowrite", "todoread", "task", "agent", "skill", "question", "plan_enter", "plan_exit", "batch", "invalid",
        "taskcreate", "taskupdate", "tasklist", "taskget", "taskoutput", "taskstop", "exitplanmode", "enterplanmode",
        "bashoutput", "killshell", "killbash", "toolsearch", "structuredoutput", "sendmessage", "askuserquestion",
    }
)  # fmt: skip


def kind_of(tool: str) -> str:
    """What sort of tool a name of either CLI is; a name that neither of them has comes from an MCP server."""
    name = tool.lower()
    for kind, names in (("shell", _SHELL), ("edit", _EDIT), ("read", _READ), ("network", _NETWORK), ("own", _OWN)):
        if name in names:
            return kind
    return "mcp"


def _is_tool(pattern: str, tool: str, kind: str) -> bool:
    """`bash`, `edit` and the other plain words mean the tools of both CLIs; an MCP tool goes by its own name."""
    name = tool.lower()
    if fnmatchcase(name, pattern) or pattern == kind or (pattern in _SHELL and kind == "shell"):
        return True
    return kind == "mcp" and _is_mcp(pattern, tool)


def _is_mcp(pattern: str, tool: str) -> bool:
    """claude: mcp__server__tool; opencode: server_tool. Server and tool, or the tool alone."""
    name, wanted = tool.lower(), pattern.lower()
    plain = name.removeprefix("mcp__").replace("__", "_")
    tails = {plain[place + 1 :] for place in range(len(plain)) if plain[place] == "_"}
    return any(fnmatchcase(text, wanted) for text in {name, plain, *tails})


# --- taking a call apart ------------------------------------------------------------------------------------------


def parts(call: Call, guarded: Sequence[str] = ()) -> list[Part]:
    """Never empty. `guarded`: paths that some rule names."""
    kind = kind_of(call.tool)
    if kind == "shell":
        return _of_shell(call, bool(guarded))
    if kind == "edit":
        paths, mentions = _edited(call)
        return [_with_settings(Part(kind, writes=paths, mentions=mentions), call.folder)]
    if kind == "mcp":
        said = tuple(_strings(call.input))
        return [Part(kind, mentions=said, tags=frozenset({Tag.MCP}), why=f"{call.tool} of an MCP server")]
    if kind == "network":
        return [Part(kind, tags=frozenset({Tag.NETWORK}), why=f"{call.tool} talks to the network")]
    return [Part(kind)]


_PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "notebookPath")
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?|--- (?:a/)?)(.+)$", re.M
)


def _edited(call: Call) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named = [str(call.input[key]) for key in _PATH_KEYS if isinstance(call.input.get(key), str)]
    patches = [text for key, text in call.input.items() if "patch" in key.lower() and isinstance(text, str)]
    named += [match[1].strip() for text in patches for match in _PATCHED.finditer(text)]
    return tuple(named), () if named else tuple(_strings(call.input))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _of_shell(call: Call, guards: bool) -> list[Part]:
    text = call.input.get("command")
    if not isinstance(text, str):
        return [_unclear("a shell call without a command")]
    try:
        commands = shell.read(text)
    except shell.NotUnderstood as error:
        return [_unclear(f"the command cannot be understood: {error}")]
    except RecursionError:
        return [_unclear("the command is nested too deeply")]
    found = [_with_settings(_of_command(command, guards), call.folder) for command in commands]
    return found or [Part("shell")]


def _unclear(why: str) -> Part:
    return Part("shell", tags=frozenset({Tag.UNCLEAR}), why=why)


def _of_command(command: shell.Command, guards: bool) -> Part:
    if command.unclear:
        return _unclear(command.unclear)
    tags, why = known.judge(command)
    writes = command.writes
    dark = [path for path in writes if UNKNOWN in path or QUOTED in path]
    if guards and dark:
        tags, why = (*tags, "unclear"), why or "where the output goes cannot be told"
    mentions = () if known.only_reads(command.words) else command.words[1:]
    mentions = (*mentions, *command.mentions) if mentions else mentions
    return Part("shell", command.words, writes, mentions, frozenset(Tag(tag) for tag in tags), why)


def _with_settings(part: Part, folder: str) -> Part:
    paths = (*part.writes, *known.written(part.words))
    found = next((path for path in paths if known.is_settings(_relative(path, folder))), None)
    if found is None:
        return part
    return replace(part, tags=part.tags | {Tag.SETTINGS}, why=part.why or f"{found} makes something run later")


# --- guarded files ------------------------------------------------------------------------------------------------


def _touches(pattern: str, part: Part, folder: str) -> bool:
    """Whether the part would change a file that the pattern names; a text that only mentions it counts."""
    if part.kind == "read":
        return False
    wanted = posixpath.normpath(pattern)
    if any(_same_file(wanted, path, folder) for path in part.writes):
        return True
    return any(_names(wanted, text, folder) for text in part.mentions)


def _same_file(pattern: str, path: str, folder: str) -> bool:
    relative = _relative(path, folder)
    if fnmatchcase(relative, pattern) or fnmatchcase(posixpath.normpath(path), pattern):
        return True
    last = posixpath.basename(pattern)
    if not _WILD.search(last) and posixpath.basename(relative) == last:  # it may have changed the folder before
        return True
    return bool(_WILD.search(path)) and (fnmatchcase(pattern, relative) or fnmatchcase(last, posixpath.basename(path)))


def _names(pattern: str, text: str, folder: str) -> bool:
    """A word that is the file, a folder above it, or a longer text (code, a patch, JSON) in which it stands."""
    value = text.partition("=")[2] if text.startswith("-") or "=" in text.split("/")[0] else text
    for word in {text, value, text[2:] if text[:1] == "-" else text}:
        if word and not word.startswith("-") and "\n" not in word and len(word) < 4096:
            if _same_file(pattern, word, folder):
                return True
            relative = _relative(word, folder)
            if relative not in (".", "") and pattern.startswith(relative + "/"):
                return True
    last = posixpath.basename(pattern)
    return len(last) > 3 and not _WILD.search(last) and last in text


_WILD = re.compile(r"[*?\[]")


def _relative(path: str, folder: str) -> str:
    whole = posixpath.normpath(posixpath.join(folder, path))
    root = posixpath.normpath(folder)
    return whole[len(root) + 1 :] if whole.startswith(root.rstrip("/") + "/") else "." if whole == root else whole


def inside(path: str, roots: Iterable[str], folder: str) -> bool:
    """Whether a path lies in one of these folders, by its text."""
    whole = posixpath.normpath(posixpath.join(folder, path))
    return any(whole == root or whole.startswith(root.rstrip("/") + "/") for root in map(posixpath.normpath, roots))


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
def _marks() -> Mapping[int, str]:
    return {ord(UNKNOWN): "…", ord(QUOTED): "…"}


def shown(text: str) -> str:
    """A short printable text."""
    line = " ".join(text.translate(_marks()).split())
    return line if len(line) <= 200 else line[:199] + "…"
