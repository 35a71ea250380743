"""What git says a worker left behind. Read after its whole tree is dead, against a base recorded before it started.

Two marks are taken with `snapshot`: the task's base, once, and the start of each attempt. Paths that were dirty before
are subtracted by the hash of their content, not by their name (`worktree`). Paths of tools (`SCRATCH`) are named and no
work. When git fails, that is the evidence: never "no changes".
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dispatcher.errors import DispatcherError, GitError
from dispatcher.repository import elsewhere, locks, marker
from dispatcher.repository import trace as traces
from dispatcher.repository.git import Layout, View, layout, view
from dispatcher.repository.worktree import DIFF, HASHED_WHOLE, Entry, hashes, status
from dispatcher.task import Commit, CopyMode, Evidence

SCRATCH = (".claude/settings.local.json", ".opencode/", ".claude/.cache/")
WALKED = 50_000  # entries of ignored folders that are looked at
COMMITS = 500
NAMED_PATHS = 200  # of one git command; more would make it too long


@dataclass(frozen=True)
class TaskBase:
    """Where a copy stood. `heads` are its branches and its stash; `dirty` maps a path to the hash of its content."""

    base: str | None
    branch: str | None = None
    detached: bool = False
    dirty: Mapping[str, str] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    git_dir: str = ""
    taken_at: int = 0  # nanoseconds on the file system's own clock

    def to_json(self) -> str:
        return json.dumps({**self.__dict__, "dirty": dict(self.dirty), "heads": dict(self.heads)})

    @classmethod
    def from_json(cls, text: str) -> TaskBase:
        return cls(**json.loads(text))


def snapshot(copy: Path) -> TaskBase:
    """The state now. Raises GitError or RepositoryError: a task whose start cannot be read must not start."""
    of = layout(copy)
    first = _stamp(of)
    with view(of) as seen:
        entries, heads = status(seen), seen.refs("refs/heads", "refs/stash")
        taken = TaskBase(
            base=seen.head(heads),
            branch=seen.branch(),
            detached=seen.branch() is None,
            dirty=hashes(seen, entries),
            heads=heads,
            git_dir=str(of.git_dir),
        )
    return replace(taken, taken_at=_stamp(of, after=first))


def _stamp(of: Layout, *, after: int = 0) -> int:
    """The file system's time, later than `after` where its clock is fine enough."""
    file = of.git_dir / "dispatcher.stamp"
    for _ in range(50):
        file.write_bytes(b"")
        at = file.stat().st_mtime_ns
        if at > after:
            break
        time.sleep(0.001)
    file.unlink()
    return at


def inspect(
    copy: Path,
    base: TaskBase,
    start: TaskBase | None = None,
    *,
    trace: Path | None = None,
    target: Path | None = None,
    scratch: Sequence[str] = SCRATCH,
) -> Evidence:
    """Everything git knows about the task so far. Never raises for git trouble: see `Evidence.error`."""
    try:
        of = layout(copy)
        if base.git_dir and str(of.git_dir) != base.git_dir:
            return Evidence(error=f"{copy}/.git is not the git folder that the task began with: {of.git_dir}")
        with view(of) as seen:
            commands = traces.read(trace) if trace else []
            there = marker.read(copy)
            mode = there.mode if there is not None else CopyMode.CLONE
            return _Inspection(seen, base, start, commands, target, scratch, mode).evidence()
    except GitError as error:
        return Evidence(error=error.stderr or error.message)
    except (DispatcherError, OSError, ValueError) as error:
        return Evidence(error=str(error) or type(error).__name__)


@dataclass
class _Inspection:
    """The steps of one inspection over what they share."""

    seen: View
    base: TaskBase
    start: TaskBase | None
    commands: list[traces.Command]
    target: Path | None
    scratch: Sequence[str]
    mode: CopyMode
    notes: list[str] = field(default_factory=list)

    def evidence(self) -> Evidence:
        seen, base, of = self.seen, self.base, self.seen.of
        # The branches of a worktree are everybody's: a person's commit on one of them is not this worker's.
        heads = seen.refs("refs/heads", "refs/stash") if self.mode is CopyMode.CLONE else {}
        head, branch = seen.head(heads), seen.branch()
        entries = status(seen)
        now = hashes(seen, entries)
        dirty, scratch = self._split(now, {e.path for e in entries if e.state == "??"})
        rewritten = base.base not in (None, head) and (head is None or not seen.is_ancestor(str(base.base), head))
        commits = self._commits(head)
        self._tell(now, commits, branch)
        files, insertions, deletions = self._extent(head, dirty, entries)
        nothing = not commits and not dirty
        hook, signer = self._refusals()
        search = elsewhere.Search(seen, base.base, self.commands, self.target)
        return Evidence(
            head=head,
            commits=tuple(commits),
            dirty=tuple(dirty),
            files=tuple(files),
            insertions=insertions,
            deletions=deletions,
            moved=self._moved(head, now, heads),
            rewritten=rewritten,
            detached=branch is None,
            elsewhere=tuple(search.on_other_refs(head, heads, base.heads) + search.in_other_folders()),
            ignored=tuple(self._ignored()) if nothing else (),
            scratch=tuple(scratch),
            nested=tuple(e.path.rstrip("/") for e in entries if e.state == "??" and e.path.endswith("/")),
            stale_lock=", ".join(str(path) for path in locks.found(of)) or None,
            hook_output=hook,
            notes=(*self.notes, *([] if signer is None else [f"signing failed: {signer}"])),
            signing_error=signer,
        )

    def _split(self, now: Mapping[str, str], untracked: set[str]) -> tuple[list[str], list[str]]:
        changed = sorted((p for p, h in now.items() if self.base.dirty.get(p) != h), key=os.fsencode)
        tools = [p for p in changed if p in untracked and _is_scratch(p, self.scratch)]
        return [p.rstrip("/") for p in changed if p not in tools], tools

    def _commits(self, head: str | None) -> list[Commit]:
        if head is None or head == self.base.base:
            return []
        span = [head] if self.base.base is None else [f"{self.base.base}..{head}"]
        words = ("log", "-z", "--topo-order", f"--max-count={COMMITS}", "--format=%H %s", "--no-show-signature")
        lines = [os.fsdecode(line) for line in self.seen.run(*words, *span, "--").out.split(b"\0") if line]
        made = [Commit(*line.split(" ", 1)) for line in reversed(lines)]
        return self._mine(made)

    def _mine(self, made: list[Commit]) -> list[Commit]:
        """In a person's own checkout, the commits that this worker's git made; elsewhere all are the worker's."""
        if self.mode is not CopyMode.IN_PLACE or not self.commands:
            return made
        here = os.path.realpath(self.seen.of.root)
        mine = [c for c in traces.commits(self.commands) if c.folder and os.path.realpath(c.folder) == here]
        own = set(elsewhere.during(self.seen.of.git_dir / "logs" / "HEAD", mine))
        self.notes += [f"not this worker's: {c.sha[:12]} {c.subject}" for c in made if c.sha not in own]
        return [c for c in made if c.sha in own]

    def _tell(self, now: Mapping[str, str], commits: Sequence[Commit], branch: str | None) -> None:
        if commits and branch is None:
            self.notes.append("HEAD is detached: no branch holds these commits")
        for path in sorted(self.base.dirty):
            if path not in now and not commits:
                self.notes.append(f"was uncommitted before the task and is gone: {path}")
        alive = locks.users(self.seen.of)
        if alive:
            self.notes.append("still running in the copy: " + ", ".join(f"{n} (pid {p})" for p, n in alive[:5]))

    def _extent(self, head: str | None, dirty: Sequence[str], entries: Sequence[Entry]) -> tuple[list[str], int, int]:
        """Every path that differs from the base, with inserted and deleted lines."""
        seen = self.seen
        base = self.base.base or seen.run("hash-object", "-t", "tree", "--stdin").text  # the empty tree
        tracked = {e.path for e in entries if e.state != "??"}
        out = b""
        if head is not None and head != base:
            out = seen.run("diff-tree", "-r", "--numstat", *DIFF, base, head).out
        counts = _numstat(out)
        touched = [path for path in dirty if path in tracked]
        if touched:
            # Where the index is still that of the base, only these files are looked at. `diff-index` looks at all; with
            # paths it would even read every tree.
            plain = head == base and all(e.state.startswith(".") for e in entries if e.path in tracked)
            if plain and len(touched) <= NAMED_PATHS:
                whole = _numstat(seen.run("diff-files", "--numstat", *DIFF, "--", *touched).out)
            else:
                whole = _numstat(seen.run("diff-index", "--numstat", *DIFF, base).out)
            counts = {p: whole[p] for p in {*counts, *touched} if p in whole}
        for path in dirty:
            if path not in tracked:
                counts[path] = (_lines(seen.of.root / path), 0)
        files = sorted(counts, key=os.fsencode)
        return files, sum(a for a, _ in counts.values()), sum(d for _, d in counts.values())

    def _moved(self, head: str | None, now: Mapping[str, str], heads: Mapping[str, str]) -> bool:
        start = self.start or self.base
        return (
            head != start.base
            or dict(now) != dict(start.dirty)
            or (self.mode is CopyMode.CLONE and heads != start.heads)
        )

    def _refusals(self) -> tuple[str | None, str | None]:
        """The hook and the signing program that stopped the last commit here, None when it went through."""
        here = os.path.realpath(self.seen.of.root)
        tries = [c for c in traces.commits(self.commands) if os.path.realpath(str(c.folder)) == here]
        if not tries or tries[-1].code == 0:
            return None, None
        hook = tries[-1].failed_hook
        return (f"the hook {hook} refused the commit" if hook else None), tries[-1].signer

    # ignored paths

    def _ignored(self) -> list[str]:
        """Ignored paths that changed since the base was taken, told by the change time that no tool can set back."""
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        listed = [os.fsdecode(path) for path in self.seen.run(*words).out.split(b"\0") if path]
        found: list[str] = []
        left = WALKED
        for path in listed:
            for inner, info in _walk(self.seen.of.root, path):
                left -= 1
                if info.st_ctime_ns >= self.base.taken_at:
                    found.append(inner)
                if left <= 0 or len(found) >= 100:
                    self.notes.append("more ignored paths than were looked at")
                    return found
        return found


def _is_scratch(path: str, patterns: Sequence[str]) -> bool:
    return any(path == pattern or (pattern.endswith("/") and path.startswith(pattern)) for pattern in patterns)


def _numstat(out: bytes) -> dict[str, tuple[int, int]]:
    """`added TAB deleted TAB path NUL`; binary files have dashes and count as nothing."""
    counts = {}
    for record in out.split(b"\0"):
        if record:
            added, deleted, path = record.split(b"\t", 2)
            counts[os.fsdecode(path)] = (int(added) if added != b"-" else 0, int(deleted) if deleted != b"-" else 0)
    return counts


def _lines(path: Path) -> int:
    """Lines of an untracked text file; 0 for a binary one, as git counts them."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > HASHED_WHOLE:
            return 0
        data = path.read_bytes()
    except OSError:
        return 0
    return 0 if b"\0" in data[:8000] else data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def _walk(root: Path, path: str) -> Iterable[tuple[str, os.stat_result]]:
    whole = root / path
    try:
        if not path.endswith("/"):
            yield path, whole.lstat()
            return
        for folder, _, names in os.walk(whole):
            for name in names:
                file = Path(folder, name)
                yield os.path.relpath(file, root), file.lstat()
    except OSError:
        return
