"""Files of a commit, read without a checkout and without running anything of the repository."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dispatcher.repository.git import layout, view

LARGEST = 1024 * 1024


def files(repository: Path, commit: str, places: Sequence[str]) -> Mapping[str, bytes | None]:
    """Everything at or below `places` (paths from the root) in a commit, with its content.

    None as content: it is too large, a symbolic link, or another repository.
    """
    found: dict[str, bytes | None] = {}
    with view(layout(repository)) as seen:
        listed = seen.run("ls-tree", "-r", "-z", "--long", commit, "--", *places).out
        for entry in filter(None, listed.split(b"\0")):
            meta, _, name = entry.partition(b"\t")
            mode, _, blob, size = meta.decode("ascii").split()
            plain = mode.startswith("100") and size.isdigit() and int(size) <= LARGEST
            found[os.fsdecode(name)] = seen.run("cat-file", "blob", blob).out if plain else None
    return found
