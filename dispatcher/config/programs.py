"""Where a harness's program is installed, also when PATH does not say so.

Cron's PATH is /usr/bin:/bin, while the CLIs live in folders that a login shell adds. A configured absolute path wins,
then PATH, then the folders where installers and version managers put them. Symbolic links are not resolved: a shim of
npm needs the `node` that lies beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dispatcher.config.model import Config
from dispatcher.errors import BadInput

_PROGRAMS: Mapping[str, str] = {"opencode": "opencode", "claude": "claude"}
_BELOW_HOME = (
    ".local/bin", ".opencode/bin", ".claude/local", ".bun/bin", ".npm-global/bin", ".volta/bin", ".asdf/shims",
    ".local/share/mise/shims", ".local/share/pnpm", "Library/pnpm", ".yarn/bin", "n/bin", "bin",
)  # fmt: skip
_SYSTEM = ("/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/snap/bin", "/usr/bin", "/bin")


def find_program(harness: str, config: Config | None, environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """The command that starts the harness, its first word absolute; None when it is not installed."""
    if config is not None:
        configured = config.harness(harness).command
        if configured is not None:
            return configured if _executable(configured[0]) else None
    if harness == "scripted":
        return _scripted()
    name = _PROGRAMS.get(harness)
    if name is None:
        raise BadInput(f"there is no harness called {harness!r}", hint=f"known: {', '.join((*_PROGRAMS, 'scripted'))}")
    return next(((path,) for folder in search_path(environ) if _executable(path := f"{folder}/{name}")), None)


def search_path(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders that are looked through, in order, each once."""
    given = (folder.rstrip("/") for folder in environ.get("PATH", "").split(":") if folder.startswith("/"))
    return tuple(dict.fromkeys((*given, *_usual(environ))))


def _usual(environ: Mapping[str, str]) -> Iterator[str]:
    home = environ.get("HOME", "").rstrip("/")
    if home.startswith("/"):
        yield from (f"{home}/{folder}" for folder in _BELOW_HOME)
        managers = (
            (environ.get("NVM_DIR") or f"{home}/.nvm", "versions/node/*/bin"),
            (environ.get("FNM_DIR") or f"{home}/.local/share/fnm", "node-versions/*/installation/bin"),
        )
        for root, pattern in managers:
            yield from newest_first(str(path) for path in Path(root).glob(pattern))
    yield from _SYSTEM


def newest_first(folders: Iterable[str]) -> list[str]:
    """`v22.1.0` before `v9.9.9`."""

    def version(folder: str) -> list[int]:
        part = next((part for part in folder.split("/") if part[:1] == "v" and part[1:2].isdigit()), "")
        return [int(number) if number.isdigit() else 0 for number in part[1:].split(".")]

    return sorted(folders, key=version, reverse=True)


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _scripted() -> tuple[str, ...]:
    """By file, and with -P: the worker's folder may hold a package that is called `dispatcher` as well."""
    return (sys.executable, "-P", str(Path(__file__).resolve().parent.parent / "demo" / "worker.py"))
