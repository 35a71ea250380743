"""A command -> the same command inside bubblewrap, a container, or a template of the user's own.

Why a private home: whoever may write `~/.claude/settings.json`, `~/.config/opencode` or opencode's plugin cache plants
code that the next run *outside* the sandbox executes. So the worker gets a home folder of its task's own; from the real
one it sees only the files that the CLI needs, read-only, and its login only when the credential is that login.

Only names of variables ever become arguments, never a value: everybody on the machine can read arguments.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

CONTAINERS = ("docker", "podman")

# Relative to the home folder. What a CLI needs to be itself; whatever else lies there stays hidden.
_GIT_FILES = (".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes")
# opencode 1.18 writes a .gitignore into its configuration folder and stops when it cannot: so not the folder itself.
_CLI_FILES: Mapping[str, tuple[str, ...]] = {
    "opencode": tuple(
        f".config/opencode/{name}"
        for name in (
            "opencode.json", "opencode.jsonc", "config.json", "AGENTS.md", "package.json", "node_modules", "bun.lock",
            "agent", "agents", "command", "commands", "mode", "modes", "plugin", "plugins", "skill", "skills",
            "tool", "tools",
        )
    ),
    "claude": (".claude/settings.json", ".claude/CLAUDE.md", ".claude/agents", ".claude/commands", ".claude/skills"),
}  # fmt: skip
_LOGINS: Mapping[str, str] = {
    "opencode": ".local/share/opencode/auth.json",
    "claude": ".claude/.credentials.json",
}
_REFRESHED = frozenset({"claude"})  # writes a refreshed login back; with a stale copy the person would be logged out

# Where a moved folder is looked for, and what it is in the private home.
_MOVED = (
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("CLAUDE_CONFIG_DIR", ".claude"),
)
_UNSET = (
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CLAUDE_CONFIG_DIR",
)  # fmt: skip

# /run holds sockets that lead out (docker, dbus, ssh agents); these parts of it are only data that programs need.
_RUN_KEPT = (
    "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd",
    "/run/current-system", "/run/wrappers", "/run/booted-system",
)  # fmt: skip
_PROTECTED = (
    "attempt.json",
    "attempt.lock",
    "control",
    "exit.json",
    "before.json",
    "gate.sock",
)  # ours, in the attempt folder
_PLACE = re.compile(r"\{(copy|folder|tmp|home|cwd|command)\}")


class Box(Protocol):
    """A named entry of `sandboxes`."""

    @property
    def kind(self) -> str: ...
    @property
    def image(self) -> str | None: ...
    @property
    def command(self) -> tuple[str, ...]: ...
    @property
    def network(self) -> bool: ...
    @property
    def read(self) -> tuple[str, ...]: ...
    @property
    def write(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Scene:
    """What one command may see. Paths are absolute; those in `read` exist."""

    harness: str  # "" = a plain command such as a check
    copy: str
    folder: str  # where output and bridge file go
    tmp: str
    home: str  # the task's own home folder, empty at first
    real_home: str
    read: tuple[str, ...] = ()  # programs, git objects of the target, our own files
    files: tuple[tuple[str, str, bool], ...] = ()  # those of `wanted` that exist
    hidden: tuple[str, ...] = ()  # existing folders that become empty: /tmp, /home, /run, ...
    login: bool = False  # the credential is a login of this machine, not a key in the environment
    marker: str = ""
    owner: str = ""  # "uid:gid" for containers


def wrap(argv: Sequence[str], cwd: str, environment: Mapping[str, str], box: Box, scene: Scene) -> tuple[str, ...]:
    """The argv that runs `argv` inside `box`. `environment` is what the worker gets: only its names are used."""
    if box.kind == "bwrap":
        return _bwrap(argv, cwd, box, scene)
    if box.kind in CONTAINERS:
        return _container(argv, cwd, environment, box, scene)
    return _template(argv, cwd, box.command, scene)


def environment_of(environment: Mapping[str, str], box: Box, scene: Scene) -> dict[str, str]:
    """The environment inside: folders that were moved elsewhere are where the private home has them."""
    if box.kind == "command":
        return dict(environment)
    kept = {name: value for name, value in environment.items() if name not in _UNSET}
    return {**kept, "HOME": scene.real_home, "TMPDIR": scene.tmp}


def with_files(scene: Scene, found: tuple[tuple[str, str, bool], ...]) -> Scene:
    return replace(scene, files=found)


def ending(box: Box, marker: str) -> tuple[str, ...]:
    """The command that ends what no process tree shows: a container lives below its daemon. Empty: nothing to do."""
    return (box.kind, "rm", "--force", container_name(marker)) if box.kind in CONTAINERS else ()


def container_name(marker: str) -> str:
    return "dispatcher-" + re.sub(r"[^A-Za-z0-9_.-]", "-", marker)


def wanted(environment: Mapping[str, str], scene: Scene) -> tuple[tuple[str, str, bool], ...]:
    """(path of the real home, path in the private one, writable) of every file that the command may need."""
    moved = {below: environment.get(name) or f"{scene.real_home}/{below}" for name, below in _MOVED}

    def pair(relative: str, *, writable: bool = False) -> tuple[str, str, bool]:
        for below in sorted(moved, key=len, reverse=True):
            if relative.startswith(below + "/"):
                return moved[below] + relative[len(below) :], f"{scene.real_home}/{relative}", writable
        return f"{scene.real_home}/{relative}", f"{scene.real_home}/{relative}", writable

    files = [pair(name) for name in (*_GIT_FILES, *_CLI_FILES.get(scene.harness, ()))]
    if scene.login and scene.harness in _LOGINS:
        files.append(pair(_LOGINS[scene.harness], writable=scene.harness in _REFRESHED))
    return tuple(files)


def _bwrap(argv: Sequence[str], cwd: str, box: Box, scene: Scene) -> tuple[str, ...]:
    """Order matters: a later mount covers an earlier one."""
    words = ["bwrap", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    words += [] if box.network else ["--unshare-net"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in _outermost(scene.hidden):
        words += ["--tmpfs", path]
    for path in _RUN_KEPT:
        words += ["--ro-bind-try", path, path]
    below_home = [path for path in (*scene.read, *box.read) if path.startswith(scene.real_home.rstrip("/") + "/")]
    for path in (*scene.read, *box.read):
        words += ["--ro-bind-try", path, path] if path not in below_home else []
    words += ["--bind", scene.home, scene.real_home]
    for path in below_home:
        words += ["--ro-bind-try", path, path]
    for real, inside, writable in scene.files:
        words += ["--bind" if writable else "--ro-bind", real, inside]
    for path in dict.fromkeys((scene.copy, scene.folder, scene.tmp)):
        words += ["--bind", path, path]
    for name in _PROTECTED:
        words += ["--ro-bind-try", f"{scene.folder}/{name}", f"{scene.folder}/{name}"]
    for path in box.write:
        words += ["--bind-try", path, path]
    words += ["--chdir", cwd, "--", *argv]
    return tuple(words)


def _outermost(paths: Sequence[str]) -> list[str]:
    """Parents first, each once."""
    return sorted(dict.fromkeys(paths), key=lambda path: (path.count("/"), path))


def _container(
    argv: Sequence[str], cwd: str, environment: Mapping[str, str], box: Box, scene: Scene
) -> tuple[str, ...]:
    """The image brings the CLI, so the program is looked for there by its name. `-e NAME` takes the value from us."""
    words = [box.kind, "run", "--rm", "--interactive", "--init", "--name", container_name(scene.marker)]
    words += ["--security-opt", "no-new-privileges", "--cap-drop", "ALL"]
    words += ["--userns", "keep-id"] if box.kind == "podman" and not scene.owner.startswith("0:") else []
    words += ["--user", scene.owner] if scene.owner else []
    words += ["--network", "host" if box.network else "none"]
    for path, mode in _volumes(box, scene):
        words += ["--volume", f"{path}:{mode}"]
    for name in sorted(environment):
        if name not in ("PATH", *_UNSET):
            words += ["--env", name]
    words += ["--workdir", cwd, "--entrypoint", argv[0].rpartition("/")[2], box.image or "", *argv[1:]]
    return tuple(words)


def _volumes(box: Box, scene: Scene) -> list[tuple[str, str]]:
    """(path, path inside with its mode). Only what exists may be named: docker makes a folder of what does not."""
    volumes = [(scene.home, f"{scene.real_home}:rw")]
    volumes += [(path, f"{path}:ro") for path in dict.fromkeys((*scene.read, *box.read))]
    volumes += [(real, f"{inside}:{'rw' if writable else 'ro'}") for real, inside, writable in scene.files]
    volumes += [(path, f"{path}:rw") for path in dict.fromkeys((scene.copy, scene.folder, scene.tmp, *box.write))]
    if scene.harness:
        volumes.append((f"{scene.folder}/attempt.json", f"{scene.folder}/attempt.json:ro"))
    return volumes


def _template(argv: Sequence[str], cwd: str, template: Sequence[str], scene: Scene) -> tuple[str, ...]:
    """`{command}` as a word of its own becomes the whole command; inside a text for the shell it is quoted."""
    values = {"copy": scene.copy, "folder": scene.folder, "tmp": scene.tmp, "home": scene.home, "cwd": cwd}
    shell = list(template[:2]) == ["/bin/sh", "-c"] and len(template) == 3
    named = any("{command}" in word for word in template)
    if shell:
        text = template[2] if named else template[2] + " {command}"
        quoted = {name: shlex.quote(value) for name, value in values.items()} | {"command": shlex.join(argv)}
        return (*template[:2], _PLACE.sub(lambda match: quoted[match[1]], text))
    words: list[str] = []
    for word in template if named else (*template, "{command}"):
        if word == "{command}":
            words += argv
        else:
            words.append(_PLACE.sub(lambda match: ({**values, "command": shlex.join(argv)})[match[1]], word))
    return tuple(words)
