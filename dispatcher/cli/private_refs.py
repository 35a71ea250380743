"""The refs that keep work alive in the repositories: which may go with their task, and which no task here names.

Two homes may use one repository, and a home that was lost and made again counts from 1 a second time. So a ref is a
task's only when its rows name the ref and the commit on it, never by the number in its name; and as long as another
task that is not over names it too, it stays. What no row names is kept for ever: it may be all that is left of work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dispatcher.errors import DispatcherError
from dispatcher.repository import copies, delivery
from dispatcher.repository.delivery import DELIVERED
from dispatcher.repository.marker import identity_of
from dispatcher.store import history, queue

if TYPE_CHECKING:
    from dispatcher.store import Store
    from dispatcher.task import Task

_NAMED = (
    "SELECT DISTINCT a.snapshot_ref AS name, a.task_id AS task FROM attempt a JOIN task t ON t.id = a.task_id "
    "WHERE t.repository = ? AND a.snapshot_ref IS NOT NULL"
)
_REPOSITORIES = "SELECT DISTINCT repository FROM task WHERE repository IS NOT NULL ORDER BY repository"
_IDENTITY = re.compile(rf"refs/dispatcher/[^/]+/base-(\w+)|{DELIVERED}/[^/]+-(\w+)/")
_SHOWN = 5  # refs of a repository that are named


class Due(NamedTuple):
    task: Task
    target: Path
    ref: delivery.Kept


def due(store: Store, done: Iterable[Task], before: float) -> Iterator[Due]:
    """Refs older than `before` of tasks that are over, and of no others."""
    over = {task.id: task for task in done}
    for target in sorted({task.repository for task in over.values() if task.repository}):
        if not Path(target).is_dir():
            continue
        named = _Names(store, target)
        for ref in delivery.kept(Path(target)):
            owners = named.tasks(ref)
            task = next((over[one] for one in sorted(owners) if one in over and _ours(store, over[one], ref)), None)
            if task is not None and owners <= over.keys() and ref.at < before:
                yield Due(task, Path(target), ref)


def nobodys(store: Store) -> Iterator[str]:
    """One line for each repository with refs that no task of this home names."""
    for row in store.read(_REPOSITORIES):
        target = Path(row["repository"])
        try:
            refs = delivery.kept(target) if target.is_dir() else []
        except DispatcherError:
            continue  # it is no repository any more
        named = _Names(store, row["repository"])
        left = [ref.ref for ref in refs if not named.tasks(ref)]
        if left:
            shown = ", ".join(left[:_SHOWN]) + (", ..." if len(left) > _SHOWN else "")
            yield f"{len(left)} in {target} that no task here names, another home's or of a lost log: {shown}"


class _Names:
    """Which tasks of a repository name a ref: by their attempts, as the base that they began from, or as the mark of a
    branch that they delivered."""

    def __init__(self, store: Store, target: str) -> None:
        self.by_name: dict[str, set[int]] = {}
        for row in store.read(_NAMED, (target,)):
            self.by_name.setdefault(row["name"], set()).add(row["task"])
        self.by_identity = {identity_of(task): task.id for task in queue.tasks(store, repository=target)}

    def tasks(self, ref: delivery.Kept) -> set[int]:
        made = _IDENTITY.match(ref.ref)
        task = self.by_identity.get(made[1] or made[2]) if made else None
        return self.by_name.get(ref.ref, set()) | ({task} if task is not None else set())


def _ours(store: Store, task: Task, ref: delivery.Kept) -> bool:
    """Whether the rows of the task name the commit too: numbers of another home are the same numbers."""
    sha, base = ref.sha, copies.base_ref(ref.ref.split("/")[2], identity_of(task))
    for attempt in history.attempts(store, task.id):
        if ref.ref not in (attempt.snapshot_ref, base):
            continue
        if sha in (attempt.result_commit, attempt.base_commit) or (attempt.evidence and sha in attempt.evidence):
            return True
    return False
