"""Takes a call apart: one part for each program that it would start and for each file that it would change."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dispatcher.policy import known, shell
from dispatcher.policy.guarded import relative
from dispatcher.policy.known import code, network
from dispatcher.policy.vocabulary import Call, Part, Tag

SHELL_TOOLS = frozenset({"bash", "shell", "powershell"})
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
    for kind, names in (("shell", SHELL_TOOLS), ("edit", _EDIT), ("read", _READ), ("network", _NETWORK), ("own", _OWN)):
        if name in names:
            return kind
    return "mcp"


def parts(call: Call) -> list[Part]:
    """Never empty."""
    kind = kind_of(call.tool)
    if kind == "shell":
        return _of_shell(call)
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


def _of_shell(call: Call) -> list[Part]:
    text = call.input.get("command")
    if not isinstance(text, str):
        return [_unclear("a shell call without a command")]
    try:
        commands = shell.read(text, known.watched)
    except shell.NotUnderstood as error:
        return [_unclear(f"the command cannot be understood: {error}")]
    except RecursionError:
        return [_unclear("the command is nested too deeply")]
    found = list[Part]()
    fetched = list[str]()  # names of files that came from elsewhere
    for command in commands:
        part = _of_command(command)
        if code.runs_file(command.words, fetched):
            tags = part.tags | {Tag.FETCHED}
            part = replace(part, tags=tags, why=part.why or f"{command.words[0]} runs what was fetched")
        found.append(_with_settings(part, call.folder, command.folders))
        fetched += code.fetched_files(command.words, command.writes, command.feeders)
    return found or [Part("shell")]


def _unclear(why: str) -> Part:
    return Part("shell", tags=frozenset({Tag.UNCLEAR}), why=why)


def _of_command(command: shell.Command) -> Part:
    if command.unclear:
        return _unclear(command.unclear)
    tags, why = known.judge(command)
    devices = [path for path in command.writes if path.startswith(("/dev/tcp/", "/dev/udp/"))]
    writes = tuple(path for path in command.writes if path not in devices)
    for device in devices:
        more, said = network.device(device)
        tags, why = (*tags, *more), why or said
    if any(map(known.dark, (*writes, *known.targets(_own(command))))):
        tags, why = (*tags, "unclear"), why or "where the output goes cannot be told"
    mentions = () if known.only_reads(command.words) else (*command.words[1:], *command.mentions)
    return Part("shell", command.words, writes, mentions, frozenset(Tag(tag) for tag in tags), why)


def _own(command: shell.Command) -> Sequence[str]:
    """Its words without what xargs adds at the end."""
    return command.words[:-1] if command.reads_pipe and command.words[-1:] == (shell.UNKNOWN,) else command.words


def _with_settings(part: Part, folder: str, places: Sequence[str] = ("",)) -> Part:
    """`places`: where it may run, seen from the folder."""
    paths = (*part.writes, *known.written(part.words))
    known_places = ((path, posixpath.join(place, path)) for path in paths for place in places)
    found = next((path for path, whole in known_places if known.is_settings(relative(whole, folder))), None)
    if found is None:
        return part
    return replace(part, tags=part.tags | {Tag.SETTINGS}, why=part.why or f"{found} makes something run later")
