"""Commits that this worker made anywhere but on the HEAD of its copy, and whose a commit is.

A worker's trace names the folders in which its own git made commits and when; the reflogs of those folders, read as
text so that no git runs there, name the commits. Only folders that share the task's history count: a test suite that
commits in scratch repositories is no work in the wrong place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatcher.errors import RepositoryError
from dispatcher.repository.git import Layout, View, layout, view
from dispatcher.repository.trace import Command, commits

MADE = (b"commit", b"merge", b"cherry-pick", b"revert", b"rebase", b"am", b"pull")  # how such a reflog entry begins


@dataclass(frozen=True)
class Search:
    seen: View  # of the copy
    base: str | None
    commands: Sequence[Command]
    target: Path | None

    def on_other_refs(self, head: str | None, heads: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
        """Branches and stashes of the copy that hold what HEAD does not, and did not hold it before."""
        found = []
        for name, sha in heads.items():
            if sha in (head, before.get(name)):
                continue
            held = head is not None and self.seen.is_ancestor(sha, head)
            if not held and not self._known(sha):
                label = "its stash" if name == "refs/stash" else "branch " + name.removeprefix("refs/heads/")
                found.append(f"{sha} in {self.seen.of.root} ({label})")
        return found

    def in_other_folders(self) -> list[str]:
        here = os.path.realpath(self.seen.of.root)
        folders: dict[str, list[Command]] = {}
        for command in commits(self.commands):
            folder = os.path.realpath(str(command.folder))
            if folder != here and command.code == 0:
                folders.setdefault(folder, []).append(command)
        found = [line for folder, made in folders.items() for line in self._made_in(Path(folder), made)]
        return list(dict.fromkeys(found))

    def _made_in(self, folder: Path, commands: Sequence[Command]) -> list[str]:
        try:
            other = layout(folder)
        except RepositoryError:
            return self._made_in_gone(folder, commands)
        made = during(other.git_dir / "logs" / "HEAD", commands) if self._related(other) else []
        return [f"{sha} in {folder}" for sha in made if not self._known(sha)]

    def _made_in_gone(self, folder: Path, commands: Sequence[Command]) -> list[str]:
        """A worktree that was removed again: its commits are still in the branch logs of the copy or the target."""
        places = {self.seen.of.common, *([layout(self.target).common] if self.target else [])}
        logs = [log for place in sorted(places) for log in sorted((place / "logs" / "refs" / "heads").rglob("*"))]
        made = [(sha, log.name) for log in logs for sha in during(log, commands)]
        return [f"{sha} in {folder} (removed; branch log {name})" for sha, name in made if not self._known(sha)]

    def _related(self, other: Layout) -> bool:
        if other.common == self.seen.of.common or (self.target and other.common == layout(self.target).common):
            return True
        if self.base is None:
            return False
        with view(other) as there:
            return there.sha(self.base) is not None

    def _known(self, sha: str) -> bool:
        """Reflogs know whole seconds, so a commit from just before the task can seem to be of its time."""
        return self.base is not None and self.seen.sha(sha) is not None and self.seen.is_ancestor(sha, self.base)


def during(log: Path, commands: Iterable[Command]) -> list[str]:
    """The commits that a reflog says were made while one of the commands ran."""
    spans = [(int(c.started), c.ended if c.ended is not None else c.started + 1) for c in commands]
    return [sha for sha, at in _entries(log) if any(first <= at <= last for first, last in spans)]


def _entries(log: Path) -> list[tuple[str, float]]:
    """New commit and time of each entry that made one: `<old> <new> <name> <mail> <time> <zone> TAB <message>`."""
    try:
        lines = log.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        head, _, message = line.partition(b"\t")
        words = head.split(b" ")
        if len(words) >= 5 and words[-2].isdigit() and message.startswith(MADE):
            found.append((words[1].decode("ascii", "replace"), float(words[-2])))
    return found
