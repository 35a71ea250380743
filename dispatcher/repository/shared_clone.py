"""What `git clone --shared` makes, built from plumbing: own refs, own index, the target's objects as alternates.

No hook, filter or upload-pack command of the target runs, and sparse, shallow and unborn targets work.

What a person's clone would have, the copy has: identity, signing, filters, LFS, merge and diff drivers, hooks (copied,
so that the worker's own commits meet them) and the remotes' names and URLs. What it does not have: passwords in those
URLs, and upstreams (`push.default=nothing`), so nothing is pushed unless a push names where to, with a credential that
the worker does not have by default.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from dispatcher.errors import RepositoryError
from dispatcher.repository import lfs
from dispatcher.repository.git import INFO, Layout, View, layout, quoted_config, quoted_path, view

REFS = ("refs/heads", "refs/remotes", "refs/tags")

# Sections of the target's own configuration that the worker's git may need; a person's global one it reads itself.
COPIED = frozenset(
    {
        *("user", "author", "committer", "commit", "tag", "gpg", "filter", "lfs", "merge", "diff", "i18n", "rebase"),
        *("apply", "color"),
        *("core.autocrlf", "core.eol", "core.safecrlf", "core.filemode", "core.symlinks", "core.ignorecase"),
        *("core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone", "core.excludesfile"),
        *("core.attributesfile", "core.commentchar", "core.whitespace"),
    }
)


def build(
    of: Layout, new: Layout, sha: str | None, branch: str | None, refs: Mapping[str, tuple[str, str]]
) -> tuple[str, ...]:
    """A shared clone of one repository with its work tree at `sha`. Returns what a reader should know.

    The files are those that `git init` writes (git 2.38 to 2.50), without a process for each.
    """
    config = of.config()
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (new.git_dir / folder).mkdir(parents=True, exist_ok=True)
    new.root.mkdir(parents=True, exist_ok=True)
    (new.objects / "info" / "alternates").write_text(quoted_path(of.objects) + "\n", errors="surrogateescape")
    text = quoted_config([*_format(config), *_copied_config(of, config)])
    (new.git_dir / "config").write_text(text, errors="surrogateescape")
    _write_refs(new, sha, branch, refs)
    _copy_info(of, new)
    _copy_hooks(of, new)
    return check_out(of, new, sha, config, like=_known(config)) if sha is not None else ()


def _format(config: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    form = {key: value for _, key, value in config}.get("extensions.objectformat", "sha1")
    plain = [("core.filemode", "true"), ("core.bare", "false"), ("core.logallrefupdates", "true")]
    if form == "sha1":
        return [("core.repositoryformatversion", "0"), *plain]
    return [("core.repositoryformatversion", "1"), *plain, ("extensions.objectformat", form)]


def _known(config: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """What git would say of the new clone's configuration, as far as a view asks."""
    taken = {*COPIED, "extensions.objectformat"}
    return [
        (scope, key, value)
        for scope, key, value in config
        if scope not in ("local", "worktree") or not {key, key.partition(".")[0]}.isdisjoint(taken)
    ]


def _copied_config(of: Layout, config: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    kept = [("gc.auto", "0"), ("maintenance.auto", "false"), ("push.default", "nothing")]
    for scope, key, value in config:
        section, _, rest = key.partition(".")
        if scope not in ("local", "worktree"):
            continue
        if section == "remote" and rest.rpartition(".")[2] in ("url", "fetch"):
            kept.append((key, _without_password(value)))
        elif key == "core.hookspath":
            own = os.path.isabs(value) and Path(value).is_relative_to(of.root)
            kept.append((key, str(Path(value).relative_to(of.root)) if own else value))  # git takes it from the root
        elif section in COPIED or key in COPIED:
            kept.append((key, value))
    return kept


def _without_password(url: str) -> str:
    return re.sub(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", lambda m: m[1] if "ssh" not in m[1] else m[0], url)


def _write_refs(new: Layout, sha: str | None, branch: str | None, found: Mapping[str, tuple[str, str]]) -> None:
    """Branches, tags and remote-tracking branches as they are in the target, and HEAD; all in one file."""
    refs = dict(found)
    if sha is not None and branch is not None:
        refs[f"refs/heads/{branch}"] = (sha, "")
    lines = ["# pack-refs with: peeled fully-peeled sorted \n"]
    for name in sorted(refs, key=os.fsencode):
        plain, peeled = refs[name]
        lines.append(f"{plain} {name}\n" + (f"^{peeled}\n" if peeled else ""))
    (new.git_dir / "packed-refs").write_text("".join(lines), errors="surrogateescape")
    head = f"ref: refs/heads/{branch}" if branch is not None else sha
    (new.git_dir / "HEAD").write_text(f"{head}\n", errors="surrogateescape")


def _copy_info(of: Layout, new: Layout) -> None:
    (new.git_dir / "info").mkdir(exist_ok=True)
    for source, name in [(of.common, "shallow"), *((of.common / "info", n) for n in INFO)]:
        if (source / name).is_file():
            into = new.git_dir / "info" if source.name == "info" else new.git_dir
            shutil.copyfile(source / name, into / name)


def _copy_hooks(of: Layout, new: Layout) -> None:
    hooks = of.common / "hooks"
    if hooks.is_dir():
        shutil.copytree(hooks, new.git_dir / "hooks", ignore=shutil.ignore_patterns("*.sample"), symlinks=False)


def check_out(
    of: Layout,
    new: Layout,
    sha: str,
    config: list[tuple[str, str, str]],
    *,
    like: list[tuple[str, str, str]] | None = None,
) -> tuple[str, ...]:
    """The work tree at `sha`, with what LFS and submodules need from the target. Returns what a reader should know.

    `like` is the new repository's configuration where that is known.
    """
    with view(new, like=like) as seen:
        seen.run("read-tree", "--reset", "-u", sha)
        missing = lfs.fill(seen, of) if (new.root / ".gitattributes").exists() else []
        notes = [f"LFS content is not in the target: {path}" for path in missing]
        notes += _submodules(of, new, seen)
    drivers = {key.split(".")[1] for _, key, _ in config if key.startswith("filter.")} - {"lfs"}
    notes += [f"files of the filter {name!r} are as they are stored: no filter was run" for name in sorted(drivers)]
    return tuple(notes)


def _submodules(of: Layout, new: Layout, seen: View) -> list[str]:
    """Each submodule that is checked out in the target, as a shared clone of its own; the others are named."""
    notes = []
    for path, sha in seen.gitlinks().items():
        try:
            source = layout(of.root / path)
        except RepositoryError:
            notes.append(f"submodule {path} is not checked out in the target, and not in the copy")
            continue
        inner = Layout(new.root / path, new.git_dir / "modules" / path, new.git_dir / "modules" / path)
        with view(source) as there:
            refs = there.all_refs(*REFS)
        notes += build(source, inner, sha, None, refs)
        up = os.path.relpath(inner.git_dir, inner.root)
        (inner.root / ".git").write_text(f"gitdir: {up}\n", errors="surrogateescape")
        back = os.path.relpath(inner.root, inner.git_dir)
        with (inner.git_dir / "config").open("a", errors="surrogateescape") as file:
            file.write(quoted_config([("core.worktree", back)]))
    return notes
