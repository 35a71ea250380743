"""Processes as the kernel names them: (pid, start time), so that a recycled pid is never taken for the old process.

Linux: /proc. Elsewhere: `ps`, with whole seconds as start times; there is no environment to read there, so a process
that left the tree by a double fork cannot be found.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Collection
else:
    import _signal  # `signal` wraps it in enums, which cost as much as the rest of the supervisor's imports

SIGKILL = int(_signal.SIGKILL)
SIGTERM = int(_signal.SIGTERM)
TICKS = os.sysconf("SC_CLK_TCK")  # start times and CPU are counted in these, per second
MARKER = "DISPATCHER_ATTEMPT"

Identity = tuple[int, int]  # pid, start time in ticks since boot


class Process:
    """One row of the process table at one moment."""

    __slots__ = ("alive", "cpu", "name", "parent", "pid", "start")

    def __init__(self, pid: int, parent: int, start: int, cpu: int, name: str, alive: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.start = start
        self.cpu = cpu  # ticks, with those of its waited-for children
        self.name = name
        self.alive = alive

    @property
    def identity(self) -> Identity:
        return self.pid, self.start


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        whole = b""
        while chunk := os.read(fd, 65536):
            whole += chunk
        return whole
    except OSError:
        return b""
    finally:
        os.close(fd)


def parse_stat(pid: int, stat: bytes) -> Process | None:
    """A line of /proc/PID/stat. The name stands in brackets and may hold spaces and brackets itself."""
    head, _, tail = stat.rpartition(b")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    name = os.fsdecode(head.partition(b"(")[2])
    # A thread group whose first thread has ended shows as a zombie while its other threads live on.
    alive = fields[0] not in (b"Z", b"X", b"x") or int(fields[17]) > 1
    cpu = sum(map(int, fields[11:15]))
    return Process(pid, int(fields[1]), int(fields[19]), cpu, name, alive)


def get(pid: int) -> Process | None:
    if not os.path.isdir("/proc/self"):
        return _ps().get(pid)
    return parse_stat(pid, _read(f"/proc/{pid}/stat"))


def table() -> dict[int, Process]:
    if not os.path.isdir("/proc/self"):
        return _ps()
    rows = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := parse_stat(int(name), _read(f"/proc/{name}/stat"))):
            rows[process.pid] = process
    return rows


def _ps() -> dict[int, Process]:
    import subprocess

    done = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,lstart=,state=,comm="], capture_output=True, check=False)
    return parse_ps(done.stdout)


def parse_ps(text: bytes) -> dict[int, Process]:
    import time

    rows = {}
    for line in text.decode(errors="replace").splitlines():
        fields = line.split(None, 8)
        if len(fields) == 9:
            start = int(time.mktime(time.strptime(" ".join(fields[2:7]), "%a %b %d %H:%M:%S %Y")))
            alive = not fields[7].startswith("Z")
            rows[int(fields[0])] = Process(int(fields[0]), int(fields[1]), start, 0, fields[8].strip(), alive)
    return rows


def is_alive(identity: Identity) -> bool:
    process = get(identity[0])
    return process is not None and process.alive and process.start == identity[1]


def has_marker(pid: int, marker: str) -> bool:
    """Whether the environment that it was started with names this attempt."""
    return f"\0{MARKER}={marker}\0".encode() in b"\0" + _read(f"/proc/{pid}/environ") + b"\0"


def appends_to(pid: int, paths: Collection[str]) -> bool:
    """Whether it has one of these files open for appending, as a worker and its children have; readers have not."""
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{fd}") in paths and _open_flags(pid, fd) & os.O_APPEND:
                return True
    except OSError:
        return False
    return False


def _open_flags(pid: int, fd: str) -> int:
    for line in _read(f"/proc/{pid}/fdinfo/{fd}").splitlines():
        if line.startswith(b"flags:"):
            return int(line[6:], 8)
    return 0


def program(pid: int) -> str:
    """The file name of what it was started as; empty when the kernel does not say."""
    return os.path.basename(os.fsdecode(_read(f"/proc/{pid}/cmdline").partition(b"\0")[0]))


def written(pid: int) -> int:
    """Bytes that it has written so far, to whatever; 0 when the kernel does not say."""
    for line in _read(f"/proc/{pid}/io").splitlines():
        if line.startswith(b"wchar:"):
            return int(line[6:])
    return 0


def boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def send(identity: Identity, number: int) -> bool:
    """Signal exactly this process; False when it is gone. The pidfd is opened first and checked then, so the pid
    cannot be given to another process in between."""
    pid, start = identity
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        return _send_plain(identity, number)
    try:
        process = get(pid)
        if process is None or process.start != start:
            return False
        _signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _send_plain(identity: Identity, number: int) -> bool:
    """Without pidfd (macOS, old kernels)."""
    if not is_alive(identity):
        return False
    try:
        os.kill(identity[0], number)
    except OSError:
        return False
    return True
