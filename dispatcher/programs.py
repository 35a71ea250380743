"""Which CLIs this machine has, and their versions, remembered by path, size and time of change.

`--version` of a CLI costs up to a second, so it is asked once per installed file and not once per attempt.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.errors import Refused

if TYPE_CHECKING:
    from dispatcher.config import Config

_CACHE = "programs.json"


@dataclass(frozen=True)
class Program:
    """`command` is what is started: an absolute path, or an interpreter with its script."""

    harness: str
    command: tuple[str, ...]


def find(name: str, config: Config, environ: Mapping[str, str]) -> Program:
    """The program of a harness; Refused when this machine has none."""
    from dispatcher.config import find_program

    command = find_program(name, config, environ)
    if command is None:
        raise Refused(f"{name} is not installed", hint=f"install it, or set harnesses.{name}.path in models.yaml")
    return Program(name, command)


def missing(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Harnesses of the roster that this machine cannot run -> why."""
    from dispatcher.config import find_program

    wanted = {candidate.harness for candidate in config.roster.candidates.values()}
    return {name: f"{name} is not installed" for name in sorted(wanted) if find_program(name, config, environ) is None}


def version(program: Program, logs: Path) -> str | None:
    """The words of `--version`, stripped; None when the program does not say."""
    key = _identity(program.command)
    known = _remembered(logs / _CACHE)
    if key in known:
        return known[key]
    said = ask_version(program.command)
    if said is not None:
        _remember(logs / _CACHE, known | {key: said})
    return said


def ask_version(command: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, "DISABLE_AUTOUPDATER": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return words[0][:100] if done.returncode == 0 and words else None


def timeout_binary(environ: Mapping[str, str]) -> str | None:
    """The exact name of this machine's timeout program (`gtimeout` on a Mac with coreutils)."""
    path = environ.get("PATH", os.defpath)
    return next((name for name in ("timeout", "gtimeout") if shutil.which(name, path=path)), None)


def _identity(command: tuple[str, ...]) -> str:
    """Path, size and time of change of the file that decides what runs (the last existing path of the command)."""
    files = [Path(word) for word in command if os.path.isabs(word) and os.path.exists(word)]
    if not files:
        return " ".join(command)
    stat = files[-1].stat()
    return f"{files[-1]} {stat.st_size} {stat.st_mtime_ns}"


def _remembered(cache: Path) -> dict[str, str]:
    try:
        found = json.loads(cache.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _remember(cache: Path, known: Mapping[str, str]) -> None:
    """Best effort: a log folder that cannot be written is reported by whoever must write there."""
    fresh = cache.with_name(f"{cache.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(known), encoding="utf-8")
        fresh.replace(cache)
    except OSError:
        fresh.unlink(missing_ok=True)
