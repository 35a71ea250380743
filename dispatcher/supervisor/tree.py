"""Everything that one attempt started, however it hides, and its end.

Ways to find a process, joined: it is in the attempt's control group; it descends from the supervisor (orphans come
back to it, because it is a subreaper); its environment holds the attempt's marker; it was found before. Of all these
the descendants too. A process that is older than the supervisor is never ours, nor is one we descend from ourselves.
Where the supervisor is dead, so that orphans went elsewhere, who appends to the attempt's output is ours too.
"""

from __future__ import annotations

import os
import time

from dispatcher.supervisor import processes
from dispatcher.supervisor.processes import SIGKILL, SIGTERM, Identity, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from dispatcher.supervisor.cgroup import Group

SWEEP = 5.0  # seconds of KILL and look again, before what is left counts as a survivor
AFTER_LEADER = 2.0  # seconds that children get when the worker itself has gone: it has cleaned up by then


class Tree:
    def __init__(
        self,
        marker: str,
        *,
        parent: int | None,
        born: int,
        group: Group | None = None,
        keep: Sequence[str] = (),
        leader: Identity | None = None,
        outputs: Collection[str] = (),
    ) -> None:
        self.marker = marker
        self.parent = parent  # all its descendants are ours; None when the supervisor is gone
        self.born = born
        self.group = group
        self.keep = frozenset(keep)
        self.leader = leader
        self.outputs = frozenset(outputs)
        self.kept: dict[Identity, str] = {}
        self._known: dict[int, int] = {} if leader is None else dict([leader])

    def lead(self, leader: Identity) -> None:
        """The worker itself, once it runs: it is never one of those that may stay."""
        self.leader = leader
        self._known.update([leader])

    def find(self) -> list[Process]:
        """Who lives now, except what may stay (see `kept`)."""
        table = processes.table()
        protected = _ancestors(table, os.getpid())
        children: dict[int, list[Process]] = {}
        for process in table.values():
            children.setdefault(process.parent, []).append(process)
        ours = {
            pid: process
            for pid, process in _closure(self._roots(table, children), children).items()
            if pid not in protected and process.start >= self.born
        }
        self._known.update(process.identity for process in ours.values())
        for pid in self._stayers(ours, children):
            process = ours.pop(pid)
            if process.alive:
                self.kept[process.identity] = process.name
        return [process for process in ours.values() if process.alive]

    def _roots(self, table: dict[int, Process], children: dict[int, list[Process]]) -> list[Process]:
        roots = list(children.get(self.parent, ())) if self.parent is not None else []
        members = self.group.members() if self.group is not None else []
        roots += [table[pid] for pid in members if pid in table]
        # Start times count in hundredths of a second: one that is as old as the supervisor itself was there before.
        roots += [row for row in table.values() if row.start > self.born and self._recognised(row)]
        return roots

    def _recognised(self, process: Process) -> bool:
        return (
            self._known.get(process.pid) == process.start
            or processes.has_marker(process.pid, self.marker)
            or (bool(self.outputs) and processes.appends_to(process.pid, self.outputs))
        )

    def _stayers(self, ours: dict[int, Process], children: dict[int, list[Process]]) -> list[int]:
        if not self.keep:
            return []
        named = [
            process
            for process in ours.values()
            if process.identity != self.leader and self.keep & {process.name, processes.program(process.pid)}
        ]
        return [pid for pid in _closure(named, children) if pid in ours]

    def kill(self, found: Iterable[Process]) -> None:
        if self.group is not None and not self.keep:
            self.group.kill()
        for process in found:
            processes.send(process.identity, SIGKILL)

    def close(self) -> None:
        """Give up the group. What may stay moves out of it."""
        if self.group is None:
            return
        for pid, _ in self.kept:
            self.group.release(pid)
        for _ in range(20):  # a group is busy for a moment after its last member was reaped
            if self.group.remove():
                return
            time.sleep(0.005)


def _ancestors(table: dict[int, Process], pid: int) -> set[int]:
    line = {pid}
    while (process := table.get(pid)) is not None and process.parent not in line:
        pid = process.parent
        line.add(pid)
    return line


def _closure(roots: Iterable[Process], children: dict[int, list[Process]]) -> dict[int, Process]:
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        process = waiting.pop()
        if process.pid not in found:
            found[process.pid] = process
            waiting += children.get(process.pid, ())
    return found


class Ended:
    """What an end found and left."""

    def __init__(self, names: tuple[str, ...], survivors: int) -> None:
        self.names = names  # "pid name" of each process that had to be ended, without the worker's own
        self.survivors = survivors


def end(tree: Tree, grace: float, pump: Callable[[float], None], leader_gone: Callable[[], bool]) -> Ended:
    """TERM to all, up to `grace` seconds for them to go, KILL, and look again until nobody is left.

    `pump` waits that many seconds and reaps; `leader_gone` says whether the worker itself has ended.
    """
    found = tree.find()  # before the first signal: who leaves its parent while it dies is known by then
    if not found and leader_gone():
        return Ended((), 0)
    names = _names(found, tree.leader)
    for process in found:
        processes.send(process.identity, SIGTERM)
    deadline = time.monotonic() + grace
    hurried = False
    while found and time.monotonic() < deadline:
        if not hurried and leader_gone():
            hurried, deadline = True, min(deadline, time.monotonic() + AFTER_LEADER)
        pump(0.02)
        found = [process for process in found if processes.is_alive(process.identity)]
    deadline = time.monotonic() + SWEEP
    while (found := tree.find()) and time.monotonic() < deadline:
        names.update(_names(found, tree.leader))
        tree.kill(found)
        pump(0.01)
    return Ended(tuple(names), len(found))


def _names(found: Iterable[Process], leader: Identity | None) -> dict[str, None]:
    return {f"{process.pid} {process.name}": None for process in found if process.identity != leader}
