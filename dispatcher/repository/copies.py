"""Task copies: the folder a worker works in, made from a pinned commit and never from the person's uncommitted files.

A copy is a shared clone (`shared_clone`), a worktree, or the repository itself. It is made under another name and
renamed, so a copy exists whole or not at all; a marker inside its git folder, never in the work tree, says whose it is.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from dispatcher.errors import GitError, Refused, RepositoryError
from dispatcher.repository import marker as mark
from dispatcher.repository import shared_clone
from dispatcher.repository.git import Layout, View, call, layout, view
from dispatcher.repository.keeping import new_ref, unkept, word
from dispatcher.repository.marker import Marker
from dispatcher.task import CopyMode

WORK_BRANCH = "dispatcher-work"  # the copy's branch when the base is not a branch of the target


@dataclass(frozen=True)
class Target:
    """A repository that a person named."""

    root: Path
    git_dir: Path
    common: Path

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.root, self.git_dir, self.common)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Things worth a warning, in words."""
        return _warnings(self)


@dataclass(frozen=True)
class CopyInfo:
    path: Path
    base_sha: str | None  # None: the target has no commit yet
    branch: str | None  # the branch that the copy is on; None when detached
    detached: bool
    mode: CopyMode = CopyMode.CLONE
    reused: bool = False
    notes: tuple[str, ...] = field(default=())


class Taken(RepositoryError):
    """Two tasks wanted one checkout at the same moment, and the other one has it."""


def resolve(path: Path) -> Target:
    """The repository that holds `path`. RepositoryError when there is none, when it is bare, the home folder or /."""
    if not path.is_dir():
        raise RepositoryError(f"{path} is not a folder", hint="name the folder of a git repository")
    asked = ("--is-bare-repository", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
    found = call(["rev-parse", *asked], cwd=path, ok=(0, 128))
    said = found.text.split("\n")
    if said[0] == "true":
        raise RepositoryError(f"{path} is a bare repository", hint="name a checkout of it; work starts from files")
    if found.code != 0 or len(said) != len(asked):
        if "not a git repository" in found.err:
            raise RepositoryError(f"{path} is not a git repository", hint=f"run `git init {path}` first")
        raise GitError(f"{path}: {found.err.strip()}", command="git rev-parse", stderr=found.err, code=found.code)
    _, git_dir, common, top = said
    root = Path(top)
    if root in (Path("/"), Path.home()):
        raise RepositoryError(f"{root} is too large to be a target", hint="name the repository of one project")
    return Target(root, Path(git_dir), Path(os.path.normpath(path / common)))


def _warnings(target: Target) -> tuple[str, ...]:
    config = {key: value for _, key, value in target.layout.config()}
    notes = []
    if config.get("commit.gpgsign", "false").lower() in ("true", "1", "yes", "on"):
        notes.append("commits are signed here: a key that asks for a passphrase cannot be used without a terminal")
    if "user.name" not in config or "user.email" not in config:
        notes.append("git knows no user.name and user.email here: the worker cannot commit")
    if target.git_dir.stat().st_uid != os.geteuid():
        notes.append("the repository belongs to another account; git calls that dubious ownership")
    if any(key.endswith(".promisor") for key in config):
        notes.append("a partial clone: objects that are not here cannot be fetched while a copy is made")
    return tuple(notes)


# --- preparing ----------------------------------------------------------------------------------------------------


def prepare(
    target: Path,
    copy: Path,
    *,
    base: str | None = None,
    mode: CopyMode = CopyMode.CLONE,
    marker: str,
    identity: str = "",
    pin: bool = True,
) -> CopyInfo:
    """The task's working folder: made, or found as this task left it. RepositoryError names whatever is in the way.

    `marker` is the task's word in names; `identity` tells it from others of the same word. `pin` keeps the base alive
    on a ref of the target; a checkout that is thrown away after its checks needs none.
    """
    of = resolve(target).layout
    found = _existing(of, copy, mode, marker, identity)
    if found is not None:
        return found
    if mode is not CopyMode.CLONE:
        _refuse_dubious(of)
    with view(of) as seen:
        refs = seen.all_refs(*shared_clone.REFS)
        sha, branch = _base(seen, base, refs)
    if sha is not None and pin:
        new_ref(of, base_ref(marker, identity), sha, "dispatcher: base")
    if mode is CopyMode.IN_PLACE:
        whose = Marker(marker, mode, sha, branch, identity=identity)
        if not mark.write_first(of, whose):
            raise Taken(f"{of.root} is in the way: another task was faster", hint="try again")
        return CopyInfo(of.root, sha, branch, branch is None, mode)
    _refuse_inside(of, copy)
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RepositoryError(f"{copy} cannot be made: {error}") from error
    whose = Marker(marker, mode, sha, branch, identity=identity)
    return _worktree(of, copy, whose) if mode is CopyMode.WORKTREE else _clone(of, copy, whose, refs)


def base_ref(marker: str, identity: str = "") -> str:
    """The ref that keeps the base of this very task alive."""
    return f"refs/dispatcher/{word(marker)}/base{f'-{word(identity)}' if identity else ''}"


def is_anothers(copy: Path, *, marker: str, identity: str) -> bool:
    """Whether a task copy lies there that another task made; anything else that lies there is not told apart here."""
    there = mark.read(copy)
    return there is not None and (there.marker, there.identity) != (marker, identity)


def belongs_to(copy: Path, *, number: str, identity: str) -> bool:
    """Whether this task made the copy. A rebuild of two queues may have changed its number, never its identity."""
    there = mark.read(copy)
    return there is not None and (there.identity == identity if there.identity else there.marker == number)


def user_of(checkout: Path) -> tuple[str, str] | None:
    """Marker and identity of the task that works in this checkout itself (`in_place`); None when none does."""
    there = mark.read(checkout)
    return (there.marker, there.identity) if there is not None and there.mode is CopyMode.IN_PLACE else None


def let_go(checkout: Path, user: tuple[str, str]) -> None:
    """This task, which used the checkout in place, is done with it; the files stay as they are."""
    if user_of(checkout) == user:
        mark.erase(layout(checkout))


def commit_of(target: Path, base: str | None) -> str | None:
    """The commit that a copy would start from now; None in a repository without one."""
    with view(resolve(target).layout) as seen:
        return _base(seen, base, seen.all_refs("refs/heads"))[0]


def _base(seen: View, base: str | None, refs: Mapping[str, tuple[str, str]]) -> tuple[str | None, str | None]:
    """The commit to start from and the name of the copy's branch (None: detached, as the target itself is)."""
    if base is None:
        heads = {name: sha for name, (sha, _) in refs.items() if name.startswith("refs/heads/")}
        return seen.head(heads), seen.branch()
    sha = seen.sha(base)
    if sha is None:
        raise RepositoryError(f"{seen.of.root} has no commit called {base}", hint="`base` is a branch, tag or commit")
    return sha, base if f"refs/heads/{base}" in refs else WORK_BRANCH


def _refuse_inside(of: Layout, copy: Path) -> None:
    """A copy inside the target would make the target dirty."""
    if copy.resolve().is_relative_to(of.root.resolve()):
        raise RepositoryError(f"{copy} lies inside the target {of.root}", hint="set copies.root to a folder elsewhere")


def _refuse_dubious(of: Layout) -> None:
    """The worker's own git would refuse a repository of another account (git 2.35.2 and later); a clone is its own."""
    safe = {value for _, key, value in of.config() if key == "safe.directory"}
    if of.git_dir.stat().st_uid != os.geteuid() and not safe & {"*", str(of.root)}:
        hint = f"git config --global --add safe.directory {of.root}, or `copy: clone`"
        raise RepositoryError(f"{of.root} belongs to another account (dubious ownership)", hint=hint)


def _existing(of: Layout, copy: Path, mode: CopyMode, marker: str, identity: str) -> CopyInfo | None:
    place = of.root if mode is CopyMode.IN_PLACE else copy
    if mode is not CopyMode.IN_PLACE and (not copy.exists() or (copy.is_dir() and not any(copy.iterdir()))):
        return None
    there = mark.read(place)
    if there is None and mode is CopyMode.IN_PLACE:
        return None
    if there is None or (there.marker, there.identity) != (marker, identity) or there.mode is not mode:
        other = there is not None and there.marker == marker and there.identity != identity
        whose = "is not a task copy" if there is None else f"belongs to {'another ' if other else ''}{there.marker}"
        raise RepositoryError(f"{place} is in the way: it {whose}", hint="move it away, or end the task that uses it")
    return CopyInfo(place, there.base, there.branch, there.branch is None, mode, True, there.notes)


# --- a shared clone -----------------------------------------------------------------------------------------------


def _clone(of: Layout, copy: Path, whose: Marker, refs: Mapping[str, tuple[str, str]]) -> CopyInfo:
    sha, branch = whose.base, whose.branch
    unfinished = copy.with_name(f".{copy.name}.unfinished")  # of a dispatcher that was killed: no worker was ever in it
    if unfinished.exists():
        delete_tree(unfinished)
    try:
        new = Layout(unfinished, unfinished / ".git", unfinished / ".git")
        notes = shared_clone.build(of, new, sha, branch, refs)
        mark.write(layout(unfinished), replace(whose, notes=notes))
        if copy.exists():
            copy.rmdir()  # empty, or it would have been refused
        unfinished.rename(copy)
    except OSError as error:
        raise RepositoryError(f"{copy} cannot be made: {error}") from error
    return CopyInfo(copy, sha, branch, branch is None, CopyMode.CLONE, False, notes)


# --- a worktree ---------------------------------------------------------------------------------------------------


def _worktree(of: Layout, copy: Path, whose: Marker) -> CopyInfo:
    """A linked worktree on a branch of its own. What a killed dispatcher left is taken over or named, never doubled."""
    sha = whose.base
    if sha is None:
        raise RepositoryError(f"{of.root} has no commit yet: git cannot add a worktree", hint="use `copy: clone`")
    name = f"{WORK_BRANCH}/{word(whose.marker)}{f'-{word(whose.identity)}' if whose.identity else ''}"
    of.run("worktree", "prune")  # a registration whose folder is gone
    held = _holder(of, f"refs/heads/{name}")
    if held is not None:
        raise RepositoryError(f"the branch {name} is checked out at {held}", hint="move that worktree away")
    with view(of) as seen:
        there = seen.sha(f"refs/heads/{name}")
    if there not in (None, sha):
        raise RepositoryError(f"the branch {name} holds work: {there}", hint=f"rename or remove the branch {name}")
    of.run("worktree", "add", "--no-checkout", *([] if there else ["-b", name]), str(copy), name if there else sha)
    new = layout(copy)
    notes = shared_clone.check_out(of, new, sha, of.config())
    mark.write(new, replace(whose, branch=name, notes=notes))
    return CopyInfo(copy, sha, name, False, CopyMode.WORKTREE, False, notes)


def checkouts(of: Layout) -> dict[Path, str | None]:
    """Every work tree of a repository and the full ref that its HEAD names (None when detached)."""
    found: dict[Path, str | None] = {}
    for folder in [of.common, *sorted((of.common / "worktrees").glob("*"))]:
        try:
            head = os.fsdecode((folder / "HEAD").read_bytes()).strip()
            pointer = folder / "gitdir"
            linked = folder != of.common
            root = Path(os.fsdecode(pointer.read_bytes()).strip()).parent if linked else of.common.parent
        except OSError:
            continue
        found[root] = head.removeprefix("ref: ") if head.startswith("ref: ") else None
    return found


def _holder(of: Layout, ref: str) -> Path | None:
    return next((root for root, head in checkouts(of).items() if head == ref), None)


# --- what a brief or a person asks of a copy ----------------------------------------------------------------------


def instructions(repository: Path, base_sha: str | None) -> str | None:
    """The text of AGENTS.md and CLAUDE.md at the base commit; None when there is neither."""
    if base_sha is None:
        return None
    texts: list[str] = []
    with view(layout(repository)) as seen:
        for name in ("AGENTS.md", "CLAUDE.md"):
            listed = seen.run("ls-tree", base_sha, "--", name).text
            if not listed.startswith("100"):  # absent, or a symbolic link to the other one
                continue
            text = seen.run("cat-file", "blob", f"{base_sha}:{name}").out.decode("utf-8", errors="replace").strip()
            if text and text not in texts:
                texts.append(text)
    return "\n\n".join(texts) or None


def delete_tree(folder: Path) -> None:
    """Remove a folder, read-only parts included (module caches are often made read-only)."""

    def allow(function: Callable[[str], object], path: str, _: object) -> None:
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        if not os.path.islink(path):
            os.chmod(path, stat.S_IRWXU)
        function(path)

    shutil.rmtree(folder, onerror=allow)


def _layout_of(target: Path) -> Layout:
    try:
        return layout(target)
    except RepositoryError:  # a folder inside of it was named
        return resolve(target).layout


def remove(copy: Path, target: Path) -> None:
    """Delete a copy, but only when everything in it is on a ref of the target. Refused names what would be lost.

    A checkout that was used in place is let go of and otherwise left alone.
    """
    there, here = mark.read(copy), layout(copy)
    if there is None:
        raise RepositoryError(f"{copy} is not a task copy", hint="nothing was removed")
    if there.mode is CopyMode.IN_PLACE:
        mark.erase(here)
        return
    of = _layout_of(target)
    lost = unkept(here, of)
    if lost:
        raise Refused(f"{copy} is not removed; not on any ref: {', '.join(lost[:5])}", hint="keep it on a ref first")
    if there.mode is CopyMode.CLONE:
        delete_tree(copy)
        return
    of.run("worktree", "remove", "--force", str(copy))  # forced once: git refuses submodules otherwise
    of.run("update-ref", "-d", f"refs/heads/{there.branch}")
