"""Git LFS done by hand, because its filter is a program and no program of a repository's configuration is run here.

A pointer (LFS specification v1) is a text of at most 1024 bytes that names the SHA-256 and the size of the content. The
content lies in `lfs/objects/aa/bb/<oid>` of the git folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from dispatcher.repository.git import Layout, View

POINTER_LIMIT = 1024
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)


def oid(blob: bytes) -> str | None:
    """The SHA-256 that a pointer names; None when these bytes are no pointer."""
    found = _POINTER.match(blob) if len(blob) <= POINTER_LIMIT else None
    return found.group(1).decode() if found else None


def same_content(pointer: bytes, file: Path) -> bool:
    """Whether the file is what the pointer stands for: such a file looks modified to a git without the LFS filter."""
    wanted = oid(pointer)
    if wanted is None or file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest() == wanted


def may_be_used(of: Layout) -> bool:
    """Whether any file can stand for a pointer here: by the LFS filter, or because we put it there (`fill`)."""
    return (of.root / ".gitattributes").exists() or any(key.startswith("filter.lfs.") for _, key, _ in of.config())


def _stored(of: Layout, name: str) -> Path:
    return of.common / "lfs" / "objects" / name[:2] / name[2:4] / name


def fill(seen: View, source: Layout, paths: list[str] | None = None) -> list[str]:
    """Put the content in place of each pointer in the work tree. Returns the paths whose content is not stored here."""
    root, missing = seen.of.root, []
    for path in paths if paths is not None else _tracked(seen):
        file = root / path
        if file.is_symlink() or not file.is_file() or file.stat().st_size > POINTER_LIMIT:
            continue
        name = oid(file.read_bytes())
        if name is None:
            continue
        content = _stored(source, name)
        if content.is_file():
            mode = file.stat().st_mode
            share(source, seen.of, name)
            file.unlink()
            shutil.copyfile(content, file)
            file.chmod(mode)
        else:
            missing.append(path)
    return missing


def _tracked(seen: View) -> list[str]:
    """Paths that the attributes give to LFS. `GIT_LITERAL_PATHSPECS` is lifted for the attribute magic alone."""
    listed = seen.run("ls-files", "-z", "--", ":(attr:filter=lfs)", env={"GIT_LITERAL_PATHSPECS": ""}).out
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def share(source: Layout, into: Layout, name: str) -> None:
    """One stored content into the other repository's store, by hard link where that is possible."""
    old, new = _stored(source, name), _stored(into, name)
    if new.exists() or not old.is_file():
        return
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)


def share_all(source: Layout, into: Layout) -> None:
    """Every stored content that the other side lacks: the delivered commits may point to any of them."""
    for file in (source.common / "lfs" / "objects").glob("??/??/*"):
        share(source, into, file.name)
