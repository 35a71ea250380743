"""System calls that Python has no function for. Where the system or the kernel does not know one, nothing happens, and
the caller has another way.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
SYS_CLONE3 = 435  # the same on every architecture that Python runs on
CLONE_INTO_CGROUP = 0x200000000
KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE


def become_subreaper() -> None:
    """Orphans of the worker's tree become our children instead of init's (Linux 3.4). Elsewhere they are found by the
    parent walk while their parents live."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """What `ps -o comm` and `top` show, up to 15 bytes."""
    _prctl(PR_SET_NAME, name.encode()[:15])


def _prctl(option: int, value: int | bytes) -> None:
    import ctypes

    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except AttributeError:  # not Linux
        return


def fork_into(group: str) -> int:
    """fork(2) into the control group with this folder (Linux 5.7); -1 where that cannot be. The child may only get
    ready and exec: Python has not noticed that it was born."""
    import ctypes

    try:
        folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return -1
    try:
        arguments = (ctypes.c_uint64 * 11)(CLONE_INTO_CGROUP, 0, 0, 0, _signal.SIGCHLD, 0, 0, 0, 0, 0, folder)
        return int(ctypes.PyDLL(None).syscall(SYS_CLONE3, arguments, ctypes.c_size_t(ctypes.sizeof(arguments))))
    except AttributeError:
        return -1
    finally:
        os.close(folder)


def punch_hole(path: str, start: int, length: int) -> bool:
    """Give the space of a part of a file back; whether that was possible."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(libc, "fallocate64", None)  # with 64-bit offsets on every machine; not in macOS
    if fallocate is None:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    fd = os.open(path, os.O_WRONLY)
    try:
        return int(fallocate(fd, KEEP_SIZE_PUNCH_HOLE, start, length)) == 0
    finally:
        os.close(fd)
