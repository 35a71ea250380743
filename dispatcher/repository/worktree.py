"""What lies in a work tree: the paths that git calls changed, and a hash of what is in each.

Names alone would not do. A path that was dirty before is somebody else's work until its content changes, and a path
that git calls modified although its bytes are those of the index (line endings, LFS: the filters say otherwise, or an
mtime moved) is a phantom and no work.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatcher.errors import RepositoryError
from dispatcher.repository import lfs
from dispatcher.repository.git import View, layout, view

DIFF = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--ignore-submodules=dirty", "-z")
HASHED_WHOLE = 256 * 1024 * 1024  # larger files are told apart by size and time


@dataclass(frozen=True)
class Entry:
    """One line of `git status`. `head` and `index` are blob ids; `state` is git's XY."""

    path: str
    state: str  # "??" when untracked
    index_mode: str = "000000"
    work_mode: str = "000000"
    index: str = ""


def status(seen: View, *, untracked: str = "all") -> list[Entry]:
    """Changed and untracked paths, any bytes in their names, submodules left to `hashes`."""
    words = ("status", "--porcelain=v2", "-z", f"--untracked-files={untracked}", "--no-renames", "--no-ahead-behind")
    entries = []
    for record in seen.run(*words, "--ignore-submodules=dirty").out.split(b"\0"):
        line = os.fsdecode(record)
        if line.startswith("1 "):
            _, state, _, _, index_mode, work_mode, _, index, path = line.split(" ", 8)
            entries.append(Entry(path, state, index_mode, work_mode, index))
        elif line.startswith("u "):
            path = line.split(" ", 10)[10]
            entries.append(Entry(path, "UU"))
        elif line.startswith("? "):
            entries.append(Entry(line[2:], "??"))
    return entries


def changed(seen: View) -> list[Entry]:
    """The same without phantoms."""
    entries = status(seen)
    skipped = phantoms(seen, entries)
    return [entry for entry in entries if entry.path not in skipped]


def hashes(seen: View, entries: Iterable[Entry]) -> dict[str, str]:
    entries = list(entries)
    skipped = phantoms(seen, entries)
    dirty = {e.path: content_hash(seen.of.root / e.path) for e in entries if e.path not in skipped}
    for path, sha in seen.gitlinks().items():
        state = repository_state(seen.of.root / path)
        if state is not None and (path in dirty or state != f"{sha}:"):
            dirty[path] = state
    return dirty


def content_hash(path: Path) -> str:
    """Kind, executable bit and content in one word; a folder that is a repository by its HEAD and its dirty paths."""
    try:
        info = path.lstat()
    except OSError:
        return "gone"
    if stat.S_ISLNK(info.st_mode):
        return "link:" + hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
    if stat.S_ISDIR(info.st_mode):
        return repository_state(path) or "folder"
    if not stat.S_ISREG(info.st_mode):
        return f"special:{stat.S_IFMT(info.st_mode)}"
    kind = "program" if info.st_mode & stat.S_IXUSR else "file"
    if info.st_size > HASHED_WHOLE:
        return f"{kind}:{info.st_size}:{info.st_mtime_ns}"
    try:
        with path.open("rb") as handle:
            return f"{kind}:{hashlib.file_digest(handle, 'sha256').hexdigest()}"
    except OSError as error:
        return f"unreadable:{error.errno}:{info.st_size}:{info.st_mtime_ns}"


def repository_state(root: Path) -> str | None:
    """`<HEAD>:<hash of its dirty paths, empty when clean>` of an inner repository, None when it is none."""
    try:
        of = layout(root)
        with view(of) as seen:
            dirty = hashes(seen, status(seen))
            listed = hashlib.sha256(json.dumps(sorted(dirty.items())).encode()).hexdigest() if dirty else ""
            return f"{seen.sha('HEAD')}:{listed}"
    except RepositoryError:
        return None


def phantoms(seen: View, entries: Sequence[Entry]) -> set[str]:
    """Paths that git calls modified although nobody changed them: same mode, and the bytes of the index or of LFS."""
    asked = [e for e in entries if e.state == ".M" and e.index_mode == e.work_mode and e.index_mode.startswith("100")]
    found, rest = set(), []
    for entry in asked:
        if blob_id(seen.of.root / entry.path, entry.index) == entry.index:
            found.add(entry.path)
        else:
            rest.append(entry)
    if rest and lfs.may_be_used(seen.of):
        for entry, blob in zip(rest, small_blobs(seen, [e.index for e in rest]), strict=True):
            if blob is not None and lfs.same_content(blob, seen.of.root / entry.path):
                found.add(entry.path)
    return found


def blob_id(path: Path, like: str) -> str | None:
    """The id that git would give these very bytes, in the hash that `like` is written in."""
    try:
        size = path.lstat().st_size
        digest = hashlib.sha1(usedforsecurity=False) if len(like) == 40 else hashlib.sha256()
        digest.update(b"blob %d\0" % size)
        with path.open("rb") as handle:
            while block := handle.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def small_blobs(seen: View, ids: Sequence[str]) -> list[bytes | None]:
    """The contents of blobs that may be LFS pointers; None for all others."""
    sizes = seen.run("cat-file", "--batch-check=%(objectsize)", stdin="".join(f"{i}\n" for i in ids).encode()).out
    small = [
        i for i, size in zip(ids, sizes.split(b"\n"), strict=False) if size.isdigit() and int(size) <= lfs.POINTER_LIMIT
    ]
    if not small:
        return [None] * len(ids)
    out, contents, at = seen.run("cat-file", "--batch", stdin="".join(f"{i}\n" for i in small).encode()).out, {}, 0
    for name in small:
        end = out.index(b"\n", at)
        size = int(out[at:end].rsplit(b" ", 1)[1])
        contents[name] = out[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return [contents.get(i) for i in ids]
