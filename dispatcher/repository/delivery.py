"""How work reaches the target: a branch of its own with trailers, and from there, when a person says so, another one.

The target's checkout is never touched by `deliver`: only objects and one branch. The copy is left as it is; the
delivered commits are new objects, because trailers are part of a commit. Signed commits are delivered unchanged.
`accept_into` is all or nothing: the merge is computed without any work tree, and a checkout that has the branch is
moved along only when it is clean.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dispatcher.errors import GitError, Refused, RepositoryError
from dispatcher.repository import lfs, locks, messages, worktree
from dispatcher.repository.copies import checkouts, resolve
from dispatcher.repository.git import Layout, View, layout, view
from dispatcher.repository.keeping import NAMES, identity, keep, state_tree, transfer, word
from dispatcher.task import Commit

__all__ = [
    "Conflict",
    "Delivered",
    "How",
    "accept_into",
    "clear_stale_lock",
    "combined",
    "contains",
    "deliver",
    "diff",
    "diffstat",
    "keep",
    "kept",
    "release_ref",
]

DELIVERED = "refs/dispatcher/delivered"  # <owner>/<branch>: what each branch was when that task left it
BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")


class How(StrEnum):
    FF = "ff"
    MERGE = "merge"
    SQUASH = "squash"


class Conflict(Refused):
    """Results that cannot be merged without a person."""


@dataclass(frozen=True)
class Delivered:
    branch: str
    sha: str
    note: str = ""


@dataclass(frozen=True)
class DiffStat:
    """Lines per path; None for a binary file."""

    files: tuple[tuple[str, int | None, int | None], ...]

    @property
    def insertions(self) -> int:
        return sum(added or 0 for _, added, _ in self.files)

    @property
    def deletions(self) -> int:
        return sum(deleted or 0 for _, _, deleted in self.files)


@dataclass(frozen=True)
class Kept:
    """One private ref of the target."""

    ref: str
    sha: str
    at: float  # committer time


# --- delivering ---------------------------------------------------------------------------------------------------


def deliver(
    copy: Path,
    target: Path,
    *,
    branch: str,
    owner: str,
    base: str | None,
    trailers: Mapping[str, str],
    commits: Sequence[Commit] | None = None,
    by_commit: Mapping[str, Mapping[str, str]] | None = None,
    uncommitted: str | None = None,
) -> Delivered:
    """The commits base..HEAD of the copy as a branch of the target.

    `commits` limits the trailers to these; `by_commit` gives single ones their own. `uncommitted` is the message of a
    commit made of what is not committed (for tasks that are asked for changes only). `owner` is the word of this very
    task: a branch that it did not leave there itself, or that is checked out, is left alone and a numbered name is
    used. GitError when there is nothing to deliver.
    """
    here, there = layout(copy), resolve(target).layout
    with view(here, writes_to=there) as seen:
        head = seen.sha("HEAD")
        if uncommitted is not None:
            head = _commit_state(seen, head, uncommitted)
        if head is None or head == base:
            raise RepositoryError(f"{copy} holds no commit to deliver", hint="the work may be uncommitted")
        chosen = None if commits is None else {c.sha for c in commits}
        new, notes = _with_trailers(seen, base, head, trailers, chosen, by_commit or {})
        transfer(seen, there, [new])
        lfs.share_all(here, there)
    name = _point(there, branch, new, word(owner))
    if name != branch:
        notes.append(f"{branch} is not this task's own, was moved or is checked out: delivered as {name}")
    return Delivered(name, new, "; ".join(notes))


def _commit_state(seen: View, head: str | None, message: str) -> str | None:
    tree = state_tree(seen)
    if head is not None and seen.run("rev-parse", f"{head}^{{tree}}").text == tree:
        return head
    parents = ("-p", head) if head is not None else ()
    return seen.run("commit-tree", tree, *parents, stdin=os.fsencode(message + "\n"), env=_person(seen.of)).text


def _with_trailers(
    seen: View,
    base: str | None,
    head: str,
    trailers: Mapping[str, str],
    chosen: set[str] | None,
    by_commit: Mapping[str, Mapping[str, str]],
) -> tuple[str, list[str]]:
    order = seen.run("rev-list", "--reverse", "--topo-order", head, *([f"^{base}"] if base else [])).text.split("\n")
    raws = {sha: seen.run("cat-file", "commit", sha).out for sha in order if sha}
    if any(messages.signed(raw) for raw in raws.values()):
        return head, ["signed commits: delivered unchanged, without trailers"]
    new: dict[str, str] = {}
    for sha, raw in raws.items():
        own = {**trailers, **by_commit.get(sha, {})} if chosen is None or sha in chosen else {}
        changed = messages.rewritten(raw, new, own)
        if changed != raw:
            new[sha] = seen.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=changed).text
    return new.get(head, head), []


def _point(there: Layout, branch: str, sha: str, owner: str) -> str:
    """Move the owner's own branch, or make the next numbered one. Returns the name that was used."""
    with view(there) as seen:
        refs = seen.refs("refs/heads", f"{DELIVERED}/{owner}")
        for number in range(1, NAMES):
            name = branch if number == 1 else f"{branch}-{number}"
            ref, ours = f"refs/heads/{name}", f"{DELIVERED}/{owner}/{name}"
            old = refs.get(ref)
            if old not in (None, refs.get(ours)) or ref in checkouts(there).values():
                continue
            lines = os.fsencode(f"update {ref} {sha} {old or '0' * len(sha)}\nupdate {ours} {sha}\n")
            words = ("update-ref", "-m", "dispatcher: delivered", "--stdin")
            if there.run(*words, stdin=lines, ok=(0, 1, 128)).code == 0:
                return name
            if seen.refs(ref).get(ref) == old:  # nobody was faster: git refuses the name, and says why
                there.run(*words, stdin=lines)
                return name
    raise RepositoryError(f"no free name for the branch {branch}", hint="remove old branches of this task")


def _person(of: Layout, *, required: bool = False) -> dict[str, str]:
    """Who commits: the person whose repository it is; without one, the program itself, unless that is refused."""
    config = {key: value for _, key, value in of.config()}
    name, mail = config.get("user.name"), config.get("user.email")
    if name and mail:
        return identity(name, mail)
    if required:
        raise Refused("git knows no user.name and user.email here", hint="git config --global user.name 'Your Name'")
    return identity("dispatcher", "dispatcher@localhost")


# --- accepting ----------------------------------------------------------------------------------------------------


def accept_into(target: Path, commit: str, *, into: str, how: How = How.FF, message: str | None = None) -> Delivered:
    """Bring a delivered commit or branch into another branch. Refused, with nothing changed, when that cannot be clean.

    A work tree that has the branch checked out is moved along when it is clean, and is a reason to refuse when not.
    """
    there = resolve(target).layout
    with view(there) as seen:
        new, old = seen.sha(commit), seen.sha(f"refs/heads/{into}")
        if new is None:
            raise RepositoryError(f"{target} has no commit called {commit}")
        if old is None:
            raise RepositoryError(f"{target} has no branch called {into}", hint="name an existing branch")
        if seen.is_ancestor(new, old):
            return Delivered(into, old, f"{into} holds it already")
        result = _combined(seen, old, new, commit, into, how, message)
    place = next((root for root, head in checkouts(there).items() if head == f"refs/heads/{into}"), None)
    if place is None:
        _move(there, into, old, result)
        return Delivered(into, result)
    notes = _move_along(layout(place), there, into, old, result)
    return Delivered(into, result, "; ".join([f"the checkout {place} was moved along", *notes]))


def _combined(seen: View, old: str, new: str, commit: str, into: str, how: How, message: str | None) -> str:
    if how is How.FF:
        if not seen.is_ancestor(old, new):
            raise Refused(f"{into} has moved: no fast-forward", hint="accept with a merge or a squash")
        return new
    tree, paths = _merge(seen, old, new)
    if paths:
        raise Refused(f"conflicts with {into}: {', '.join(paths)}", hint="nothing was changed")
    parents = ("-p", old, "-p", new) if how is How.MERGE else ("-p", old)
    text = message or (f"Merge {commit} into {into}" if how is How.MERGE else _squashed(seen, old, new))
    return seen.run(
        "commit-tree", tree, *parents, stdin=os.fsencode(text + "\n"), env=_person(seen.of, required=True)
    ).text


def _merge(seen: View, old: str, new: str) -> tuple[str, list[str]]:
    """The tree of a merge that no work tree has seen, and the paths that conflict in it."""
    merged = seen.run("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", old, new, ok=(0, 1))
    tree, *paths = [os.fsdecode(part) for part in merged.out.split(b"\0") if part]
    return tree, list(dict.fromkeys(paths)) if merged.code == 1 else []


def combined(target: Path, results: Mapping[str, str]) -> str:
    """A commit that holds all of these (words for people -> commit): one that has the others in it, else a merge.

    The merge is ours: its date is that of its newest parent, so that the same results give the same commit again.
    """
    names: list[str] = []
    with view(resolve(target).layout) as seen:
        whole = ""
        for name, commit in results.items():
            if not whole or seen.is_ancestor(whole, commit):
                whole = commit
            elif not seen.is_ancestor(commit, whole):
                tree, paths = _merge(seen, whole, commit)
                if paths:
                    shown = ", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")
                    raise Conflict(f"the results of {' and '.join([*names, name])} conflict in {shown}")
                whole = _merged(seen, tree, [whole, commit], [*names, name])
            names.append(name)
    return whole


def _merged(seen: View, tree: str, parents: Sequence[str], names: Sequence[str]) -> str:
    dates = seen.run("log", "--no-walk", "--format=%ct", "--no-show-signature", *parents, "--").text.split("\n")
    at = f"{max(int(date) for date in dates)} +0000"
    env = {**identity("dispatcher", "dispatcher@localhost"), "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    words = [word for parent in parents for word in ("-p", parent)]
    message = os.fsencode(f"Merge the results of {' and '.join(names)}\n")
    return seen.run("commit-tree", tree, *words, stdin=message, env=env).text


def _squashed(seen: View, old: str, new: str) -> str:
    """The whole message of a single commit, else one line for each, and the trailers of the last."""
    shas = seen.run("rev-list", "--reverse", "--no-merges", f"{old}..{new}").text.split("\n")
    texts = [seen.run("cat-file", "commit", sha).text.partition("\n\n")[2] for sha in shas if sha]
    if len(texts) == 1:
        return texts[0].rstrip("\n")
    subjects = [text.partition("\n")[0] for text in texts]
    trailers = [line for line in texts[-1].split("\n") if line.startswith("Dispatcher-")]
    return "\n".join([subjects[0], "", *(f"* {subject}" for subject in subjects), "", *trailers]).rstrip("\n")


def _move(there: Layout, into: str, old: str, new: str) -> None:
    there.run("update-ref", "-m", "dispatcher: accepted", f"refs/heads/{into}", new, old)


def _move_along(place: Layout, there: Layout, into: str, old: str, new: str) -> list[str]:
    """The checkout first, under git's own index lock, then the branch; back again when the branch would not move."""
    busy = [name for name in BUSY if (place.git_dir / name).exists()]
    if busy:
        raise Refused(f"{place.root} is in the middle of something ({busy[0]})", hint="finish or abort it first")
    with view(place) as seen:
        dirty = [e.path for e in worktree.changed(seen) if e.state != "??"]
        if dirty:
            raise Refused(
                f"{place.root} has {into} checked out with changes: {', '.join(dirty[:5])}", hint="commit them"
            )
        paths = [
            os.fsdecode(p)
            for p in seen.run("diff-tree", "-r", "--name-only", *worktree.DIFF, old, new).out.split(b"\0")
            if p
        ]
        seen.run("update-index", "--refresh", ok=(0, 1))
        _refuse_filters(seen, paths)
        try:
            seen.run("read-tree", "-m", "-u", old, new)
        except GitError as error:
            raise Refused(f"{place.root} cannot be moved along: {error.stderr}", hint="nothing was changed") from error
        try:
            _move(there, into, old, new)
        except GitError:
            seen.run("read-tree", "-m", "-u", new, old)
            raise
        missing = lfs.fill(seen, there, paths)
    return [f"LFS content is not here: {path}" for path in missing]


def _refuse_filters(seen: View, paths: Sequence[str]) -> None:
    """A filter is a program, which we do not run: files of one cannot be written into a person's checkout by us."""
    drivers = {key.split(".")[1] for _, key, _ in seen.of.config() if key.startswith("filter.")} - {"lfs"}
    if not drivers or not paths:
        return
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    fields = os.fsdecode(seen.run("check-attr", "-z", "--stdin", "filter", stdin=asked).out).split("\0")
    filtered = [path for path, value in zip(fields[0::3], fields[2::3], strict=False) if value in drivers]
    if filtered:
        raise Refused(f"a filter is needed for {filtered[0]}, and filters are not run", hint="merge the branch by hand")


# --- looking ------------------------------------------------------------------------------------------------------


def diffstat(repository: Path, base: str | None, commit: str) -> DiffStat:
    with view(layout(repository)) as seen:
        start = base or seen.run("hash-object", "-t", "tree", "--stdin").text
        out = seen.run("diff-tree", "-r", "--numstat", *worktree.DIFF, start, commit).out
    found = []
    for record in out.split(b"\0"):
        if record:
            added, deleted, path = record.split(b"\t", 2)
            binary = added == b"-"
            found.append((os.fsdecode(path), None if binary else int(added), None if binary else int(deleted)))
    return DiffStat(tuple(found))


def diff(repository: Path, base: str | None, commit: str) -> str:
    """The change as a patch, never through a program of the repository; bytes that are no UTF-8 are replaced."""
    options = [word for word in worktree.DIFF if word != "-z"]
    with view(layout(repository)) as seen:
        start = base or seen.run("hash-object", "-t", "tree", "--stdin").text
        return seen.run("diff-tree", "-r", "-p", *options, start, commit).out.decode("utf-8", "replace")


def contains(repository: Path, commit: str, *, by: str) -> bool:
    """Whether a commit is part of the history of `by`. False when either is not there."""
    with view(layout(repository)) as seen:
        old, new = seen.sha(commit), seen.sha(by)
        return old is not None and new is not None and seen.is_ancestor(old, new)


def clear_stale_lock(copy: Path, *, wait: float = 5.0) -> str | None:
    """What was done about lock files in the copy, None when there are none."""
    return locks.clear(layout(copy), wait=wait)


def kept(target: Path) -> list[Kept]:
    """Private refs of the target, oldest first: what `prune` may offer to remove."""
    form = "%(refname)%00%(objectname)%00%(committerdate:unix)"
    words = ("for-each-ref", "--sort=committerdate", f"--format={form}", "refs/dispatcher")
    lines = [os.fsdecode(line).split("\0") for line in layout(target).run(*words).out.split(b"\n") if line]
    return [Kept(ref, sha, float(at or 0)) for ref, sha, at in lines]


def release_ref(target: Path, ref: Kept) -> None:
    """Remove one private ref, if it is still what was shown."""
    if not ref.ref.startswith("refs/dispatcher/"):
        raise Refused(f"{ref.ref} is not a private ref")
    layout(target).run("update-ref", "-d", ref.ref, ref.sha)
