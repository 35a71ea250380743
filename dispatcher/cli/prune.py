"""`prune`: old logs, finished copies whose work is on a ref, and old refs after asking. Never anything else.

What may go is named here from the rows, and looked at again on the disk: a path that is not exactly where this program
puts it is left alone.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dispatcher import strict_yaml
from dispatcher.cli import home, idle, private_refs
from dispatcher.cli.render import Column, clean, note, out, table
from dispatcher.cli.wording import plural, size
from dispatcher.errors import BadInput, DispatcherError
from dispatcher.repository import copies, delivery
from dispatcher.repository.marker import identity_of
from dispatcher.store import history, locks, queue
from dispatcher.supervisor import spec
from dispatcher.supervisor.attempt_files import ATTEMPT
from dispatcher.task import TERMINAL, Task

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.store import Store

_SET_ASIDE = re.compile(r"\d+\.before-(\d+)")  # an attempt's folder, and when (epoch seconds) it was put aside
_BESIDE_A_COPY = ("tmp", "home")  # what a task has there for itself


class Item(NamedTuple):
    """One thing that may go. `remove` raises DispatcherError when it must stay after all."""

    kind: str
    task: int | None
    what: str
    octets: int
    remove: Callable[[], None]


def prune_home(explicit: Path | None, *, older: str, refs: bool, yes: bool, dry_run: bool, as_json: bool) -> None:
    if not refs:
        idle.refuse("without --refs", {"--yes": yes}, "nothing else is asked about")
    seconds = strict_yaml.duration(older)
    if seconds is None:
        raise BadInput(f"{older!r} is no duration", hint="write it like 30d or 12h")
    config = home.configured(explicit)
    before = time.time() - seconds
    with home.existing(explicit) as store:
        done = [t for t in queue.tasks(store, status=tuple(TERMINAL)) if t.updated_at < before]
        done = [task for task in done if not history.open_attempts(store, task.id)]
        items = [*_logs(config, store, done), *_set_aside(config, store, before), *_copies(config, done)]
        if refs:
            items += _asked(_refs(store, done, before), yes=yes or dry_run)
        if dry_run:
            for line in private_refs.nobodys(store):
                note(f"refs that are kept: {clean(line)}")
        else:
            locks.clean(config.home / "logs")
    gone = items if dry_run else [item for item in items if _removed(item)]
    rows = [{"kind": i.kind, "task": i.task, "what": i.what, "bytes": i.octets} for i in gone]
    columns = [Column("kind", "kind"), Column("task", "task", right=True), Column("bytes", "size", size, right=True)]
    table(
        rows, [*columns, Column("what", "what", wide=True)], form="json" if as_json else "auto", empty="nothing to do"
    )
    if not as_json and rows:
        out(f"{'would free' if dry_run else 'freed'} {size(sum(i.octets for i in gone))}")


def _removed(item: Item) -> bool:
    try:
        item.remove()
    except (DispatcherError, OSError) as error:
        note(f"kept: {clean(str(error))}")
        return False
    return True


def _logs(config: Config, store: Store, done: list[Task]) -> Iterator[Item]:
    """The folder of a task's number, when every attempt in it is its own; else only its own attempts.

    After two queues were rebuilt into one, the folder of a number may hold attempts of another task, and a task's
    attempts may lie in the folder of another number. Whose an attempt is says the marker in it.
    """
    logs = config.home / "logs"
    for task in done:
        attempts = history.attempts(store, task.id)
        markers = {attempt.marker for attempt in attempts}
        places = {Path(attempt.folder).parent for attempt in attempts} | {logs / str(task.id)}
        for place in sorted(place for place in places if place.parent == logs and place.name.isdecimal()):
            if not place.is_dir() or place.is_symlink():
                continue
            whose = {folder: marker for folder in sorted(place.iterdir()) if (marker := _marker(folder)) is not None}
            whole = place.name == str(task.id) and markers.issuperset(whose.values())
            for folder in [place] if whole else [folder for folder in whose if whose[folder] in markers]:
                yield Item("logs", task.id, str(folder), _size(folder), _tree_remover(folder))


def _set_aside(config: Config, store: Store, before: float) -> Iterator[Item]:
    """Logs of attempts that no row knows, which stood in the way of others of their number and were put aside that
    long ago: no task takes them along. Those that a row knows go with its task."""
    for folder in sorted((config.home / "logs").glob("*/*.before-*")):
        name = _SET_ASIDE.fullmatch(folder.name)
        if name is None or int(name[1]) >= before or not folder.parent.name.isdecimal():
            continue
        if folder.is_symlink() or folder.parent.is_symlink() or spec.alive(folder):
            continue
        marker = _marker(folder)
        if marker and store.first("SELECT 1 FROM attempt WHERE marker = ?", (marker,)) is None:
            yield Item("logs", None, str(folder), _size(folder), _tree_remover(folder))


def _marker(folder: Path) -> str | None:
    """Of the attempt that lies there; None when none does."""
    if not (folder / ATTEMPT).exists():
        return None
    try:
        return spec.read(folder).marker
    except DispatcherError:
        return ""  # nobody can tell: not removed by itself


def _copies(config: Config, done: list[Task]) -> Iterator[Item]:
    for task in done:
        if task.copy_path is None:
            continue
        copy = Path(task.copy_path)
        if not copy.is_relative_to(config.copies_root) or not copy.is_dir() or copy.is_symlink():
            continue
        if task.repository is not None and not copies.belongs_to(copy, number=str(task.id), identity=identity_of(task)):
            continue
        alone = _is_alone(copy, task)
        if alone or task.repository is not None:
            yield Item("copy", task.id, str(copy), _size(copy.parent if alone else copy), _copy_remover(copy, task))


def _is_alone(copy: Path, task: Task) -> bool:
    """Whether the folder around the copy is this task's, with no other copy (`work.2`) in it."""
    others = (entry for entry in copy.parent.glob("work*") if entry.name != copy.name)
    return copy.parent.name == str(task.id) and not any(others)


def _copy_remover(copy: Path, task: Task) -> Callable[[], None]:
    def remove() -> None:
        alone = _is_alone(copy, task)
        if task.repository is not None:
            copies.remove(copy, Path(task.repository))
        elif any(copy.iterdir()):
            raise BadInput(f"{copy} belongs to no repository and is not empty")
        else:
            copy.rmdir()
        for name in _BESIDE_A_COPY if alone else ():
            if (copy.parent / name).is_dir():
                copies.delete_tree(copy.parent / name)
        if not any(copy.parent.iterdir()):
            copy.parent.rmdir()

    return remove


def _refs(store: Store, done: list[Task], before: float) -> Iterator[Item]:
    for task, target, ref in private_refs.due(store, done, before):
        yield Item("ref", task.id, f"{target} {ref.ref}", 0, _ref_remover(target, ref))


def _ref_remover(target: Path, ref: delivery.Kept) -> Callable[[], None]:
    return lambda: delivery.release_ref(target, ref)


def _asked(items: Iterator[Item], *, yes: bool) -> list[Item]:
    found = list(items)
    if not found or yes:
        return found
    if not sys.stdin.isatty():
        note(f"{plural(len(found), 'ref is', 'refs are')} kept: nobody is here to be asked (--yes removes them)")
        return []
    for item in found:
        note(clean(item.what))
    import typer

    sure = typer.confirm(
        f"Remove {plural(len(found), 'ref')}? Work that is on no branch is lost", default=False, err=True
    )
    return found if sure else []


def _tree_remover(folder: Path) -> Callable[[], None]:
    def remove() -> None:
        copies.delete_tree(folder)
        if folder.parent.name.isdecimal() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()

    return remove


def _size(folder: Path) -> int:
    return sum(_bytes(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)


def _bytes(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
