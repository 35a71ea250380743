"""Nothing that a worker made is ever lost: everything in a copy as one commit on a private ref of the target.

Several homes may share a target, and a home that was made again counts from 1 again, so a name may be taken by work
that is not ours to judge. A private ref is made once and never moved: whoever comes later takes the next name.

The commit's tree is the work tree as it lies (uncommitted and untracked files included, ignored ones listed in the
message), its parents are all commits that a ref of the target does not hold yet: HEAD, other branches, stashes, and
those that only a reflog remembers. It is made with a temporary index and written straight into the target's objects;
no hook runs and nothing is signed, so it works where the worker's own commit was refused.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dispatcher.errors import GitError, RepositoryError
from dispatcher.repository import worktree
from dispatcher.repository.git import Layout, View, layout, view

LISTED = 200  # ignored paths that the message names
NAMES = 1000  # of one ref


def identity(name: str, mail: str) -> dict[str, str]:
    """Author and committer of a commit that we make, as git's variables."""
    return {f"GIT_{who}_{what}": v for who in ("AUTHOR", "COMMITTER") for what, v in (("NAME", name), ("EMAIL", mail))}


def state_tree(seen: View, entries: Sequence[worktree.Entry] | None = None) -> str:
    """The work tree as a git tree, written to the view's objects. The repository's own index is not touched."""
    with tempfile.TemporaryDirectory(prefix="dispatcher-index-") as folder:
        index = Path(folder, "index")
        if seen.index.is_file():
            shutil.copyfile(seen.index, index)
        for shared in seen.of.git_dir.glob("sharedindex.*"):
            shutil.copyfile(shared, Path(folder, shared.name))
        entries = worktree.status(seen) if entries is None else entries
        skipped = worktree.phantoms(seen, entries)
        paths = [e.path for e in entries if e.path not in skipped and not e.path.endswith("/")]
        if paths:
            listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
            seen.run("update-index", "-z", "--add", "--remove", "--stdin", stdin=listed, index=index)
        return seen.run("write-tree", index=index).text


def tips(seen: View) -> tuple[str | None, list[str]]:
    """HEAD, and the commits that may end a line of work in the copy: it first, branches, stashes, reflog leftovers."""
    own = seen.of.git_dir == seen.of.common  # a worktree's branches are the target's own
    refs = seen.refs("refs/heads", "refs/stash") if own else {}
    head, named = seen.head(refs), list(refs.values())
    logs = [seen.of.git_dir / "logs" / "HEAD", *([seen.of.git_dir / "logs" / "refs" / "stash"] if own else [])]
    logged = [sha for log in logs for sha in _logged(log)]
    return head, list(dict.fromkeys([*([head] if head else []), *named, *_present(seen, logged)]))


def _logged(log: Path) -> list[str]:
    try:
        return [
            line.split(b" ")[1].decode("ascii", "replace") for line in log.read_bytes().splitlines() if b" " in line
        ]
    except OSError:
        return []


def _present(seen: View, shas: Sequence[str]) -> list[str]:
    if not shas:
        return []
    asked = "".join(f"{sha}\n" for sha in dict.fromkeys(shas)).encode()
    lines = seen.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).text.split("\n")
    return [line.split(" ")[0] for line in lines if line.endswith(" commit")]


def missing(seen: View, found: Sequence[str], target: Layout) -> list[str]:
    """Those of the commits that no ref of the target holds, only the ends of each line; HEAD stays first."""
    refs = set(target.refs().values()) if found else set()
    found = [sha for sha in found if sha not in refs]
    if not found:
        return []
    held = _present(seen, list(refs))
    spec = "".join(f"{sha}\n" for sha in [*found, *(f"^{sha}" for sha in held)]).encode()
    lines = seen.run("rev-list", "--parents", "--stdin", stdin=spec).text.split("\n")
    made = [line.split(" ") for line in lines if line]
    inner = {parent for words in made for parent in words[1:]}
    ends = {words[0] for words in made} - inner
    return [sha for sha in found if sha in ends]


def keep(copy: Path, target: Path, *, task: str, attempt: str) -> str | None:
    """All of the copy on `refs/dispatcher/<task>/<attempt>` of the target, or on the next free `<attempt>.<number>`.

    None when there is nothing to keep. The same state of the same attempt is kept once: its ref is named again.
    """
    here, there = layout(copy), layout(target)
    ref = f"refs/dispatcher/{word(task)}/{word(attempt)}"
    with view(here, writes_to=there) as seen:
        head, ends = tips(seen)
        parents = missing(seen, ends, there)
        tree = state_tree(seen)
        before = _kept_before(seen, there, ref, tree, ends)
        if before is not None:
            return before
        clean = head is not None and seen.run("rev-parse", f"{head}^{{tree}}").text == tree
        if not parents and (clean or (head is None and not _has_files(seen, tree))):
            return None
        commit = parents[0] if clean and parents == [head] else _commit(seen, tree, head, parents, task, attempt)
        transfer(seen, there, [commit])
    return new_ref(there, ref, commit, "dispatcher: kept")


def new_ref(there: Layout, wanted: str, commit: str, why: str) -> str:
    """A ref at this commit: the wanted name, or the next numbered one when that is at another. No ref is ever moved."""
    for number in range(1, NAMES):
        ref = numbered(wanted, number)
        made = there.run("update-ref", "-m", why, ref, commit, "0" * len(commit), ok=(0, 1, 128))
        if made.code == 0:
            return ref
        now = there.run("rev-parse", "--verify", "--quiet", ref, ok=(0, 1, 128))
        if now.code != 0:  # the name is free: git refuses for another reason, and says it
            there.run("update-ref", "-m", why, ref, commit, "0" * len(commit))
            return ref
        if now.text == commit:
            return ref
    raise RepositoryError(f"no free name for {wanted} in {there.root}", hint="remove old refs: dispatcher prune --refs")


def numbered(ref: str, number: int) -> str:
    return ref if number == 1 else f"{ref}.{number}"


def _kept_before(seen: View, there: Layout, wanted: str, tree: str, ends: Sequence[str]) -> str | None:
    """The ref that holds this state already: its files are these, and its history has all ends of the copy's."""
    parent, _, name = wanted.rpartition("/")
    form = "--format=%(refname) %(objectname) %(tree)"
    for line in there.run("for-each-ref", form, parent).text.split("\n"):
        ref, _, rest = line.partition(" ")
        commit, _, held = rest.partition(" ")
        mine = ref == wanted or re.fullmatch(re.escape(name) + r"\.\d+", ref.removeprefix(f"{parent}/"))
        if mine and held == tree and all(seen.is_ancestor(end, commit) for end in ends):
            return ref
    return None


def _has_files(seen: View, tree: str) -> bool:
    return bool(seen.run("ls-tree", tree).out)


def _commit(seen: View, tree: str, head: str | None, parents: Sequence[str], task: str, attempt: str) -> str:
    ignored = ignored_paths(seen)
    lines = [f"State of task {task} after attempt {attempt}", ""]
    if ignored:
        lines += ["Ignored, not in here:", *ignored[:LISTED], *(["..."] if len(ignored) > LISTED else [])]
    ends = list(dict.fromkeys([*([head] if head else []), *parents]))
    words = [word for parent in ends for word in ("-p", parent)]
    message = os.fsencode("\n".join(lines) + "\n")
    return seen.run("commit-tree", tree, *words, stdin=message, env=identity("dispatcher", "dispatcher@localhost")).text


def ignored_paths(seen: View) -> list[str]:
    """Ignored files, whole folders as one entry."""
    out = seen.run("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory").out
    return [os.fsdecode(path).replace("\n", "?") for path in out.split(b"\0") if path]


def word(text: str) -> str:
    """Any text as one part of a ref name."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in text).strip("-")
    return kept or "x"


def transfer(seen: View, target: Layout, commits: Sequence[str]) -> None:
    """The commits and all they need into the target's objects, as a pack that we index: no transport, no upload-pack.

    The target's refs say what is there already. `seen` must be a view that reads both.
    """
    if seen.of.objects == target.objects:
        return
    with view(target) as there:
        held = sorted(set(there.refs().values()))
        spec = "".join(f"{sha}\n" for sha in [*commits, "--not", *held]).encode()
        pack = seen.run("pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q", stdin=spec).out
        there.run("index-pack", "--stdin", "--fix-thin", stdin=pack)


def unkept(copy: Layout, target: Layout) -> list[str]:
    """What would be lost with the copy, in words. Empty: every commit and every file is on a ref of the target."""
    with view(copy, writes_to=target) as seen:
        head, ends = tips(seen)
        lost = [f"commit {sha[:12]}" for sha in missing(seen, ends, target)]
        entries = worktree.status(seen)
        lost += _unkept_state(seen, target, head, entries) if entries else []  # without any, the files are HEAD's
        lost += [f"the repository {e.path}" for e in entries if e.path.endswith("/")]
        lost += [
            f"the submodule {path}" for path, sha in seen.gitlinks().items() if not _plain(seen, target, path, sha)
        ]
    return lost


def _unkept_state(seen: View, target: Layout, head: str | None, entries: Sequence[worktree.Entry]) -> list[str]:
    tree = state_tree(seen, entries)
    clean = head is not None and seen.run("rev-parse", f"{head}^{{tree}}").text == tree
    if clean or (head is None and not _has_files(seen, tree)):
        return []
    kept = target.run("for-each-ref", "--format=%(tree)", "refs/dispatcher").text.split("\n")
    return [] if tree in kept else ["uncommitted changes"]


def _plain(seen: View, target: Layout, path: str, sha: str) -> bool:
    """A submodule that holds nothing of its own: not checked out, or clean at a commit that the target's one has."""
    state = worktree.repository_state(seen.of.root / path)
    if state is None:
        return True
    head, _, dirty = state.partition(":")
    if dirty:
        return False
    if head == sha:
        return True
    try:
        with view(layout(target.root / path)) as inner:
            return inner.sha(head) is not None
    except (GitError, RepositoryError):
        return False
