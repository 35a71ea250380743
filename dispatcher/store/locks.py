"""Who is alive: a runner holds a kernel lock on `logs/runner-<owner>.lock` as long as it lives.

A lock and never a process id in a file: ids are reused, and a stale file would block the next runner or be believed.
The kernel drops the lock with the process, whatever ended it. The handle is close-on-exec: a worker that outlives its
runner must not look like that runner. The content of the file is for people only.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from dispatcher.errors import InternalError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class RunnerLock:
    """`acquire()` gives the name under which tasks are claimed; it is never used twice."""

    def __init__(self, logs: Path | str) -> None:
        self.logs = os.fspath(logs)
        self.owner: str | None = None
        self._handle: int | None = None

    def acquire(self) -> str:
        if self._handle is not None:
            raise InternalError("this runner lock is already held")
        while True:
            owner = f"{os.uname().nodename.split('.')[0]}-{os.getpid()}-{os.urandom(4).hex()}"
            path = _path(self.logs, owner)
            try:
                os.makedirs(self.logs, exist_ok=True)
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise StoreError(
                    f"the lock {path} cannot be made: {error.strerror}", hint="check the folder's owner and permissions"
                ) from error
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _same_file(handle, path):  # `clean` of another runner may have removed it before it was locked
                break
            os.close(handle)
        with suppress(OSError):  # for people only: a full disk does not take the lock away
            os.write(handle, f"pid {os.getpid()}\n".encode())
        self.owner, self._handle = owner, handle
        return owner

    def release(self) -> None:
        if self._handle is None or self.owner is None:
            return
        _unlink(_path(self.logs, self.owner))
        os.close(self._handle)
        self.owner = self._handle = None

    def __enter__(self) -> RunnerLock:
        self.acquire()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.release()


def owner_alive(logs: Path | str, owner: str) -> bool:
    """True while the runner that claimed under this name lives."""
    try:
        handle = os.open(_path(os.fspath(logs), owner), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def clean(logs: Path | str) -> int:
    """Remove the lock files of runners that are gone; returns how many. Harmless at any time."""
    folder = os.fspath(logs)
    removed = 0
    for name in os.listdir(folder):
        if not (name.startswith("runner-") and name.endswith(".lock")):
            continue
        path = os.path.join(folder, name)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _unlink(path)
            removed += 1
        except BlockingIOError:
            continue
        finally:
            os.close(handle)
    return removed


def _path(logs: str, owner: str) -> str:
    return os.path.join(logs, f"runner-{owner}.lock")


def _same_file(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
