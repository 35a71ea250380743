"""Fork and exec of the worker: own session, no terminal, its output appended to files, nothing else open.

A plain fork, because this process has one thread and is small. The child is born in its control group, or enters it
before the program runs: everything that it starts is then inside too.
"""

from __future__ import annotations

import os

from dispatcher.supervisor import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping, Sequence
else:
    import _signal

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class SpawnError(Exception):
    """`stage` is what failed: stdin, output, folder or program; `errno` why."""

    def __init__(self, stage: str, errno: int) -> None:
        super().__init__(f"{stage}: {os.strerror(errno)}")
        self.stage = stage
        self.errno = errno


def spawn(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: str,
    stdin: str,
    stdout: str,
    stderr: str,
    group: str | None,
) -> int:
    """The pid of the running program. `group`: the folder of its control group."""
    opened: list[int] = []
    files = (("stdin", stdin, os.O_RDONLY), ("output", stdout, APPEND), ("output", stderr, APPEND))
    try:
        for stage, path, flags in files:
            try:
                opened.append(os.open(path, flags, 0o600))
            except OSError as error:
                raise SpawnError(stage, error.errno or 0) from None
        reader, writer = os.pipe()
        opened.append(reader)
        pid, inside = _fork(group)
        if pid == 0:
            _become(argv, environment, cwd, opened, None if inside else group, writer)
        os.close(writer)
        report = os.read(reader, 100).decode()
    finally:
        for fd in opened:
            os.close(fd)
    if report:
        os.waitpid(pid, 0)
        stage, _, errno = report.partition(" ")
        raise SpawnError(stage, int(errno))
    return pid


def _become(
    argv: Sequence[str], environment: Mapping[str, str], cwd: str, fds: list[int], group: str | None, writer: int
) -> None:
    """In the child; never returns. A failure goes through the pipe, which the exec closes."""
    stage = "program"
    try:
        _enter(group)
        os.setsid()
        for number in range(1, _signal.NSIG):
            if number not in (_signal.SIGKILL, _signal.SIGSTOP) and 0 < number < 32:
                _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        for target, fd in enumerate(fds[:3]):
            os.dup2(fd, target)
        os.closerange(3, writer)
        os.closerange(writer + 1, 1 << 16)
        stage = "folder"
        os.chdir(cwd)
        stage = "program"
        os.execvpe(argv[0], list(argv), environment)
    except OSError as error:
        os.write(writer, f"{stage} {error.errno}".encode())
    finally:
        os._exit(127)


def _fork(group: str | None) -> tuple[int, bool]:
    """A child, and whether it was born in the group. To move there later costs a grace period of the kernel: 8 ms."""
    pid = -1 if group is None else kernel.fork_into(group)
    return (os.fork(), False) if pid < 0 else (pid, True)


def _enter(group: str | None) -> None:
    if group is not None:
        try:
            with open(f"{group}/cgroup.procs", "wb", buffering=0) as file:
                file.write(b"0")
        except OSError:
            return  # the tree is then found by the other ways
