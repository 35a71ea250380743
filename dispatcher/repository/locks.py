"""Lock files that a killed git left, and how to tell them from those of a git that is still at work.

git removes its locks on SIGTERM and leaves them on SIGKILL. Whether a lock has an owner is read from /proc, so this is
Linux only: on other systems a lock is named and never removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from dispatcher.repository.git import Layout

PROC = Path("/proc")


def found(of: Layout) -> list[Path]:
    """Lock files that stop the next git command in this repository."""
    singles = [of.git_dir / "index.lock", of.git_dir / "HEAD.lock"]
    singles += [of.common / "packed-refs.lock", of.common / "config.lock", of.common / "shallow.lock"]
    if of.git_dir == of.common:  # a linked worktree shares its refs with people
        singles += (of.common / "refs").glob("**/*.lock")
    return [path for path in singles if path.exists()]


def users(of: Layout) -> list[tuple[int, str]]:
    """Processes that work in this repository: number and name. Empty where there is no /proc."""
    places = {os.path.realpath(of.root), os.path.realpath(of.git_dir)}
    return [(pid, name) for pid, name in _processes() if pid != os.getpid() and _uses(pid, name, places)]


def owners(of: Layout) -> list[tuple[int, str]]:
    """Those of them that are git."""
    return [(pid, name) for pid, name in users(of) if name.startswith("git")]


def _processes() -> Iterator[tuple[int, str]]:
    if not PROC.is_dir():
        return
    for entry in os.listdir(PROC):
        if entry.isdigit():
            try:
                yield int(entry), (PROC / entry / "comm").read_text(errors="replace").strip()
            except OSError:  # it has ended meanwhile
                continue


def _uses(pid: int, name: str, places: set[str]) -> bool:
    folder = PROC / str(pid)
    try:
        if _within(os.readlink(folder / "cwd"), places):
            return True
        if not name.startswith("git"):  # only git holds a lock through an open file; others are told by their folder
            return False
        return any(_within(os.readlink(file), places) for file in (folder / "fd").iterdir())
    except PermissionError:
        return name.startswith("git")  # another account's git that cannot be looked into: taken as an owner
    except OSError:
        return False


def _within(path: str, places: set[str]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def clear(of: Layout, *, wait: float = 5.0) -> str | None:
    """Remove locks that nobody holds; wait for a living owner first. What was done in words, None without a lock."""
    locks = found(of)
    if not locks:
        return None
    names = ", ".join(str(path) for path in locks)
    if not PROC.is_dir():
        return f"{names}: left alone, a living owner can be told on Linux only"
    deadline = time.monotonic() + wait
    while (alive := owners(of)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if alive:
        who = ", ".join(f"{name} (pid {pid})" for pid, name in alive)
        return f"{names}: left alone, held by {who}"
    left = [path for path in locks if path.exists()]
    for path in left:
        path.unlink(missing_ok=True)
    return f"removed, no git was alive there: {', '.join(map(str, left))}" if left else f"{names}: gone by itself"
