"""Of which tasks a run has still to tell: who is killed before it could is stood in for by the next run.

One row of `meta`: the owner of a run -> its tasks, each with whether it was told of. Written only where somebody is
told of anything at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from dispatcher.store import locks

if TYPE_CHECKING:
    from dispatcher.store.database import Store

    Runs = dict[str, dict[str, bool]]

KEY = "in_hand"


def begin(store: Store, owner: str, task_id: int) -> None:
    _change(store, lambda runs: runs.setdefault(owner, {}).update({str(task_id): False}))


def told(store: Store, owner: str, task_id: int) -> None:
    _change(store, lambda runs: runs.setdefault(owner, {}).update({str(task_id): True}))


def end(store: Store, owner: str) -> None:
    _change(store, lambda runs: runs.pop(owner, None))


def inherit(store: Store, logs: str, owner: str) -> dict[int, bool]:
    """Take over what runs that are dead had in hand: task -> whether somebody was told of it."""
    taken: dict[str, bool] = {}

    def move(runs: Runs) -> None:
        for other in [name for name in runs if not locks.owner_alive(logs, name)]:
            taken.update(runs.pop(other))
        if taken:
            runs[owner] = {**runs.get(owner, {}), **taken}

    if store.get_meta(KEY) not in (None, "{}"):
        _change(store, move)
    return {int(task): was for task, was in taken.items()}


def _change(store: Store, change: Callable[[Runs], object]) -> None:
    with store.write(durable=False):
        runs: Runs = json.loads(store.get_meta(KEY) or "{}")
        change(runs)
        store.set_meta(KEY, json.dumps(runs))
