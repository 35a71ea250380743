"""Names, locks and durable writes in an attempt folder, for the supervisor and for those who read after it."""

from __future__ import annotations

import errno
import fcntl
import os
import time

from dispatcher.supervisor import plain_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ATTEMPT = "attempt.json"
STDOUT = "stdout"
STDERR = "stderr"
BRIDGE = "bridge.jsonl"
CONTROL = "control"
LOCK = "attempt.lock"
EXIT = "exit.json"
GATE = "gate.sock"  # where the worker asks before a tool call, when there is a gate
OWN_ERRORS = "supervisor.log"  # only there when the supervisor itself failed

RESERVE = 64 * 1024  # bytes set aside for the exit record, so that a full disk cannot swallow it
FULL = (errno.ENOSPC, errno.EDQUOT)


def take_lock(path: str, patience: float = 2.0) -> int | None:
    """The locked file, or None when somebody holds it for longer than `patience`. A look at the lock (`locked`) takes
    it for a moment, therefore the patience."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR) or time.monotonic() >= deadline:
                os.close(fd)
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    raise
                return None
            time.sleep(0.005)


def locked(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    finally:
        os.close(fd)
    return False


def read_holder(path: str) -> dict[str, Any]:
    """What the supervisor wrote into its lock; empty when it had no time to."""
    try:
        with open(path, encoding="utf-8") as file:
            holder = plain_json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def reserve(path: str) -> None:
    """Set disk space aside for `write_durably(path)`. Best effort."""
    try:
        fd = os.open(path + ".part", os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError:
        return
    try:
        os.posix_fallocate(fd, 0, RESERVE)
    except (OSError, AttributeError):
        return
    finally:
        os.close(fd)


def write_durably(path: str, text: str) -> None:
    """Write, sync, rename, sync the folder: after a power cut there is the old file, the new one, or none."""
    part = path + ".part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        data = text.encode()
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], done)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(part, path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_when_possible(path: str, text: str, patience: float) -> bool:
    """`write_durably`, again and again while the disk is full, for up to `patience` seconds."""
    deadline = time.monotonic() + patience
    pause = 0.2
    while True:
        try:
            write_durably(path, text)
            return True
        except OSError as error:
            if error.errno not in FULL or time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 10.0)
