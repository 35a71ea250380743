"""Which repository a brief is for, found without git: `add` runs all day and must not start a program for that.

git itself looks again before anything is run; here only what is plainly wrong is refused, early and in words.
"""

from __future__ import annotations

import os
from pathlib import Path

from dispatcher.errors import RepositoryError

NONE = "none"  # `repo: none` in a brief


def checked(folder: Path, said_by: str) -> str:
    """The absolute path of the checkout that `folder` is or lies in. RepositoryError when there is none."""
    real = Path(os.path.realpath(folder.expanduser()))
    if not real.is_dir():
        raise RepositoryError(f"{said_by}: there is no folder {real}", hint="correct the path")
    root = _root_of(real)
    if root in (Path("/"), Path(os.path.realpath(Path.home()))):
        raise RepositoryError(
            f"{said_by}: {root} is too large to be a target", hint="name the repository of one project"
        )
    if root is not None:
        return str(root)
    if _is_bare(real):
        raise RepositoryError(f"{said_by}: {real} is a bare repository", hint="clone it, and name the clone")
    raise RepositoryError(f"{said_by}: {real} is not in a git repository", hint=f"git init {real}, or name another one")


def here() -> str | None:
    """The checkout that holds the current folder."""
    root = _root_of(Path.cwd())
    return None if root is None else str(root)


def _root_of(folder: Path) -> Path | None:
    """`.git` is a folder in a plain checkout and a file in a worktree or submodule."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)


def _is_bare(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
