"""The sandbox of one command: which one applies, what of this machine it may see, what is made before it starts.

`dispatcher.sandbox` says what a sandbox looks like and touches nothing; here is what it has to know of the disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import sandbox
from dispatcher.errors import BriefError, Refused
from dispatcher.harness import project_code
from dispatcher.repository import content
from dispatcher.task import CopyMode

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.runner.settings import Settings
    from dispatcher.task import Candidate, Difficulty

_OWN = Path(__file__).resolve().parent  # the package: its plugin is read by the worker
_HIDDEN = ("/tmp", "/var/tmp", "/run", "/home", "/root")
_FILE_VARIABLES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
_INSTALL = {
    "bwrap": "install bubblewrap (apt install bubblewrap)",
    "docker": "install docker, and let this account use it",
    "podman": "install podman",
}


@dataclass(frozen=True)
class Enclosure:
    """A sandbox that applies, with the task folder whose `home` it uses."""

    box: sandbox.Box
    program: str | None  # of the sandbox itself, absolute; None: a template names its own
    config: Config
    task_folder: Path

    def close(
        self,
        argv: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        *,
        copy: Path,
        folder: Path,
        tmp: Path,
        marker: str,
        harness: str = "",
        login: bool = False,
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """(argv, environment) of the same command inside. Makes the task's own home folder."""
        home = (self.task_folder if harness else tmp) / "home"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        scene = sandbox.Scene(
            harness=harness,
            copy=str(copy),
            folder=str(folder),
            tmp=str(tmp),
            home=str(home),
            real_home=environment["HOME"],
            read=tuple(dict.fromkeys(self._readable(argv, environment, copy, harness))),
            hidden=self._hidden(),
            login=login,
            marker=marker,
            owner=f"{os.getuid()}:{os.getgid()}",
        )
        found = tuple(item for item in sandbox.wanted(environment, scene) if os.path.exists(item[0]))
        scene = sandbox.with_files(scene, found)
        inside = sandbox.environment_of(environment, self.box, scene)
        words = sandbox.wrap(argv, cwd, inside, self.box, scene)
        return ((self.program, *words[1:]) if self.program else words), inside

    def _hidden(self) -> tuple[str, ...]:
        """Other people's and other tasks' files; our own database, configuration and transcripts."""
        own = (str(self.config.home), str(self.config.copies_root))
        return tuple(path for path in (*_HIDDEN, *own) if os.path.isdir(path) and not os.path.islink(path))

    def _readable(self, argv: Sequence[str], environment: Mapping[str, str], copy: Path, harness: str) -> Iterator[str]:
        for word in argv:
            if word.startswith("/") and os.path.isfile(word):
                yield from program_folders(word)
        yield str(_OWN)
        if harness in ("scripted", "claude"):  # an interpreter: of the worker, of the hook
            yield from (sys.prefix, sys.base_prefix)
        yield from alternates(copy)
        for name in _FILE_VARIABLES:
            value = environment.get(name, "")
            if value.startswith("/") and os.path.exists(value):
                yield value


def applies(
    config: Config,
    settings: Settings,
    candidate: Candidate | None,
    difficulty: Difficulty,
    task_folder: Path,
    environ: Mapping[str, str],
) -> Enclosure | None:
    """The sandbox of the brief, else of the candidate, its route, the repository; None: none. Refused: not here."""
    route = config.roster.routes.get(difficulty)
    of_candidate = candidate.sandbox if candidate is not None else None
    name = settings.brief.sandbox or of_candidate or (route.sandbox if route else None) or settings.sandbox
    if name is None or name == "none":
        return None
    if settings.copy_mode is not CopyMode.CLONE:
        raise Refused(
            f"`copy: {settings.copy_mode}` cannot be used in a sandbox: its commits need the repository itself",
            hint="leave `copy` out (a clone is the default), or say `sandbox: none`",
        )
    box = _box(config, name)
    return Enclosure(box, _program(box, environ), config, task_folder)


def _box(config: Config, name: str) -> sandbox.Box:
    from dispatcher.config import SandboxConfig

    if name in config.sandboxes:
        return config.sandboxes[name]
    if name == "bwrap":
        return SandboxConfig("bwrap", "bwrap")
    known = ", ".join(("none", "bwrap", *config.sandboxes))
    raise BriefError(f"there is no sandbox {name!r}", hint=f"known: {known}")


def _program(box: sandbox.Box, environ: Mapping[str, str]) -> str | None:
    """The absolute path of the sandbox's own program; None for a template, which names its own."""
    if box.kind == "command":
        return None
    found = shutil.which(box.kind, path=environ.get("PATH", os.defpath))
    if found is None:
        raise Refused(f"the sandbox {box.kind} is not installed", hint=f"{_INSTALL[box.kind]}, or say `sandbox: none`")
    return found


def refuse_own_code(harness: str, copy: Path, base: str | None) -> None:
    """Refused when the base commit holds code that the harness would run by itself, outside every tool call."""
    wanted = project_code.places(harness)
    if not wanted or base is None:
        return
    found = project_code.executed(harness, content.files(copy, base, wanted))
    if found:
        shown = ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
        raise Refused(
            f"{harness} would run code of this repository by itself: {shown}",
            hint="read it, then set `trust: true` for this repository in models.yaml, or run it with `sandbox: bwrap`",
        )


def end_containers(config: Config, marker: str) -> None:
    """A container outlives a client that was killed. Best effort: mostly it has gone by itself.

    Asked of every engine that the configuration names and not of what the attempt folder says: a worker writes there.
    """
    for command in sorted({sandbox.ending(box, marker) for box in config.sandboxes.values()}):
        if command and shutil.which(command[0]):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def program_folders(path: str) -> Iterator[str]:
    """Where a program and what it brings along lie: a shim's folder, and the package that it leads to."""
    for file in dict.fromkeys((path, os.path.realpath(path))):
        parts = Path(file).parts
        top = parts.index("node_modules") + 1 if "node_modules" in parts else len(parts) - 1
        folder = str(Path(*parts[:top]))
        if folder.count("/") > 1 or folder not in ("/", "/home", "/root", "/tmp"):
            yield folder


def alternates(copy: Path) -> Iterator[str]:
    """The object stores that a shared clone reads from, and those that these read from."""
    waiting, seen = [copy / ".git" / "objects"], set[Path]()
    while waiting:
        store = waiting.pop()
        if store in seen:
            continue
        seen.add(store)
        if store != copy / ".git" / "objects":
            yield str(store)
        try:
            lines = (store / "info" / "alternates").read_text(errors="surrogateescape").splitlines()
        except OSError:
            continue
        waiting += [store / _unquoted(line) for line in lines if line and not line.startswith("#")]


def _unquoted(line: str) -> str:
    """git puts paths with unusual characters in C quotes."""
    if not (line.startswith('"') and line.endswith('"')):
        return line
    return os.fsdecode(line[1:-1].encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1"))
