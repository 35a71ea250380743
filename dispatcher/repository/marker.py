"""The file that says whose a task copy is. It lies in the git folder, so it can never make a work tree dirty."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from dispatcher.errors import RepositoryError
from dispatcher.repository.git import Layout, layout
from dispatcher.task import CopyMode, Task

NAME = "dispatcher.json"


@dataclass(frozen=True)
class Marker:
    marker: str  # the task's own word
    mode: CopyMode
    base: str | None
    branch: str | None
    notes: tuple[str, ...] = ()
    identity: str = ""


def identity_of(task: Task) -> str:
    """What tells a task from the one of the same number in another home, or in a home that was made again."""
    return f"{round(task.created_at * 1e6):x}"


def read(copy: Path) -> Marker | None:
    """Whose copy this is; None when it is nobody's, or no repository at all."""
    try:
        content = json.loads((layout(copy).git_dir / NAME).read_text())
        return Marker(**{**content, "mode": CopyMode(content["mode"]), "notes": tuple(content["notes"])})
    except (OSError, ValueError, TypeError, KeyError, RepositoryError):
        return None


def write(of: Layout, marker: Marker) -> None:
    new = of.git_dir / (NAME + ".new")
    new.write_text(json.dumps(asdict(marker)))
    new.replace(of.git_dir / NAME)


def write_first(of: Layout, marker: Marker) -> bool:
    """False when there is a marker already: of two tasks that come at once, one gets the checkout. A file that says
    nothing is nobody's."""
    if (of.git_dir / NAME).exists() and read(of.root) is None:
        erase(of)
    new = of.git_dir / f"{NAME}.{uuid.uuid4().hex}"
    new.write_text(json.dumps(asdict(marker)))
    try:
        (of.git_dir / NAME).hardlink_to(new)
    except FileExistsError:
        return False
    finally:
        new.unlink()
    return True


def erase(of: Layout) -> None:
    (of.git_dir / NAME).unlink(missing_ok=True)
