"""The dispatcher's side of a supervisor: start it, wait for it, speak to it, and clean up after one that was killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio

from dispatcher.errors import InternalError, NotFound, StoreError
from dispatcher.supervisor import attempt_files as files
from dispatcher.supervisor import cgroup, plain_json, processes, spec
from dispatcher.supervisor.forks import Forked, ForkServer, Unavailable, start_python
from dispatcher.supervisor.tree import Tree, end
from dispatcher.task import ExitRecord

Launched = subprocess.Popen[bytes] | Forked | None  # None: nobody can tell but the attempt's lock
POLL = 0.1  # seconds between looks at the lock where no pidfd is to be had
LEFTOVER_GRACE = 5.0


def launch(folder: Path, env: Mapping[str, str], server: ForkServer | None = None) -> Launched:
    """Start the supervisor of the attempt whose attempt.json lies in `folder`; a fork of `server`, where that can be.

    `env` is the worker's whole environment. It reaches the worker through the supervisor's own and touches no disk.
    The lock is taken here and handed over, so that there is no moment in which a started attempt looks dead.
    """
    lock = files.take_lock(str(folder / files.LOCK))
    if lock is None:
        raise InternalError(f"{folder}: another supervisor has this attempt")
    added = [] if "LC_CTYPE" in env else ["LC_CTYPE"]  # by the interpreter, in the C locale (PEP 538)
    try:
        with (folder / files.OWN_ERRORS).open("ab") as errors:
            if server is not None:
                with suppress(Unavailable):
                    return server.fork(folder, env, lock, errors.fileno())
            return start_python((str(folder), str(lock), *added), env, (lock,), errors)
    finally:
        os.close(lock)


async def wait(folder: Path, process: Launched) -> ExitRecord | None:
    """Wait until the supervisor is gone; its exit record, or None when it left none (`lost`).

    `process` is what `launch` gave, or None for a supervisor of an earlier dispatcher. Cancelling only stops the
    waiting: the supervisor goes on, and it can be waited for again.
    """
    if isinstance(process, Forked):
        await anyio.wait_readable(process.pidfd)
    elif process is not None:
        if process.poll() is None:
            await _pidfd_gone(process.pid)
        await _polled(lambda: process.poll() is not None)
    else:
        pid = _holder_pid(folder)
        if pid is not None:
            await _pidfd_gone(pid)
        await _polled(lambda: not spec.alive(folder))
    return spec.read_exit(folder)


async def _polled(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110  # no event tells of another process
        await anyio.sleep(POLL)


async def _pidfd_gone(pid: int) -> None:
    """Return when the process has ended, or at once where that cannot be watched."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return
    try:
        await anyio.wait_readable(fd)
    finally:
        os.close(fd)


def worker_of(folder: Path) -> dict[str, object]:
    """Which process the worker is, also after its end, as the row of an attempt names it; empty where none was started.

    `pid`; `pid_start`, in clock ticks; `boot`, of which both are.
    """
    holder = files.read_holder(str(folder / files.LOCK))
    leader = holder.get("leader")
    if not leader:
        return {}
    return {"pid": int(leader[0]), "pid_start": int(leader[1]), "boot": str(holder.get("boot", ""))}


def _holder_pid(folder: Path) -> int | None:
    """The pid of a supervisor that is not our child, if it surely is that supervisor."""
    holder = files.read_holder(str(folder / files.LOCK))
    identity = holder.get("supervisor")
    if not identity or holder.get("boot") != processes.boot_id() or not processes.is_alive(tuple(identity)):
        return None
    return int(identity[0])


def send(folder: Path, message: Mapping[str, object]) -> None:
    """Append one line to `control`: {"do": "cancel", "by": NAME}, or {"do": "stop", ...} to end without a verdict.

    Where nothing can be written (a full disk), the supervisor is told to stop by a signal, whatever the message was.
    """
    if not folder.is_dir():
        raise NotFound(f"{folder}: no such attempt folder")
    try:
        _append(folder / files.CONTROL, plain_json.dumps(dict(message)).encode() + b"\n")
    except OSError as error:
        if spec.alive(folder) and not _terminate(folder):
            raise StoreError(f"{folder}: its supervisor cannot be told: {error.strerror}") from error


def _append(path: Path, line: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)


def _terminate(folder: Path) -> bool:
    """SIGTERM to the supervisor that holds the lock; False when it cannot be told which process that is."""
    pid = _holder_pid(folder)
    if pid is None:
        return False
    if not hasattr(os, "pidfd_open"):
        os.kill(pid, signal.SIGTERM)
        return True
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if _holder_pid(folder) == pid:  # asked again, now that the number cannot change hands
            signal.pidfd_send_signal(fd, signal.SIGTERM)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)
    return True


def end_leftovers(folder: Path, marker: str = "") -> int:
    """The supervisor is gone: end what it left running; the number of processes that were ended.

    Blocks for up to some seconds. Does nothing while a supervisor lives. Without a control group, a daemon that had
    thrown away its environment *and* its output and had left the tree cannot be told from a stranger. `marker` is what
    is known of an attempt whose folder or attempt.json is gone.
    """
    lock = None
    if folder.is_dir():
        lock = files.take_lock(str(folder / files.LOCK), patience=0.5)
        if lock is None:
            return 0
    try:
        tree = _tree(folder, marker)
        count = len(tree.find()) if tree is not None else 0
        if tree is None or not count:
            return 0
        ended = end(tree, LEFTOVER_GRACE, time.sleep, lambda: _leader_gone(tree))
        tree.close()
        return max(count, len(ended.names))
    finally:
        if lock is not None:
            os.close(lock)


def _tree(folder: Path, marker: str) -> Tree | None:
    keep: tuple[str, ...] = ()
    try:
        attempt = spec.read(folder)
        marker, keep = attempt.marker, attempt.keep_daemons
    except InternalError:
        if not marker:
            return None
    holder = files.read_holder(str(folder / files.LOCK))
    if holder.get("boot") != processes.boot_id():
        holder = {}  # pids and groups of another boot say nothing
    leader = holder.get("leader")
    return Tree(
        marker,
        parent=None,
        born=holder["supervisor"][1] if holder else 0,
        group=cgroup.Group(holder["group"]) if holder.get("group") else cgroup.find(marker),
        keep=keep,
        leader=tuple(leader) if leader else None,
        outputs=[str(folder.resolve() / name) for name in (files.STDOUT, files.STDERR)],
    )


def _leader_gone(tree: Tree) -> bool:
    return tree.leader is None or not processes.is_alive(tree.leader)
