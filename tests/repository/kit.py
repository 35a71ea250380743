"""Real repositories for the tests of this room, and git as a person or a worker runs it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dispatcher.repository import copies, delivery, evidence
from dispatcher.task import CopyMode, Evidence


def git(where: Path, *words: str, ok: bool = True, env: dict[str, str] | None = None) -> str:
    """A person's or a worker's own git, with everything that is configured."""
    done = subprocess.run(
        ["git", *words], cwd=where, capture_output=True, env={**os.environ, **(env or {})}, check=False
    )
    if ok and done.returncode != 0:
        raise AssertionError(f"git {words}: {done.stderr.decode()}")
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else os.fsdecode(done.stderr).strip()


def write(root: Path, name: str, text: str | bytes = "text\n") -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def commit(root: Path, name: str = "file.txt", text: str | bytes = "text\n", subject: str = "work") -> str:
    """One file, added by its name and committed. The new commit."""
    write(root, name, text)
    git(root, "add", "-f", "--", name)
    git(root, "commit", "-qm", subject)
    return git(root, "rev-parse", "HEAD")


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


def init(root: Path, *options: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main", *options)
    return root


@dataclass
class Task:
    """A target, its task copy, and the base taken before any attempt."""

    target: Path
    copy: Path
    info: copies.CopyInfo
    base: evidence.TaskBase

    def look(self, **more: object) -> Evidence:
        return evidence.inspect(self.copy, self.base, **more)  # type: ignore[arg-type]

    def keep(self, attempt: str = "1") -> str | None:
        return delivery.keep(self.copy, self.target, task="7", attempt=attempt)

    def deliver(self, branch: str = "dispatcher/7-fix", **more: object) -> delivery.Delivered:
        words = {
            "owner": "7-here",
            "trailers": {"Dispatcher-Task": "7", "Dispatcher-Model": "big"},
            "base": self.base.base,
            **more,
        }
        return delivery.deliver(self.copy, self.target, branch=branch, **words)  # type: ignore[arg-type]


def start(
    target: Path,
    copy: Path,
    *,
    base: str | None = None,
    mode: CopyMode = CopyMode.CLONE,
    marker: str = "task-7",
    identity: str = "",
) -> Task:
    info = copies.prepare(target, copy, base=base, mode=mode, marker=marker, identity=identity)
    return Task(target, info.path, info, evidence.snapshot(info.path))
