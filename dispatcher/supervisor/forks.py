"""The run's side of the fork server: started with the first attempt, asked for each one, gone with the run.

Where it is not to be had (no Linux, killed, no memory), a fresh interpreter does the same and takes 20 ms longer. A
request that was sent and never answered is not repeated: it may have been heard, and the attempt's lock tells.
"""

from __future__ import annotations

import _socket
import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import IO

from dispatcher.supervisor import plain_json

PATIENCE = 60.0  # seconds that a server may take; one that was stopped never answers
PROGRAM = str(Path(__file__).with_name("__main__.py"))


class Unavailable(Exception):
    """There is no server, and nothing was asked of one."""


class Forked:
    """A supervisor that the server forked. Its pidfd is readable when it is gone; a number could change hands."""

    def __init__(self, pidfd: int) -> None:
        self.pidfd = pidfd

    def __del__(self) -> None:
        os.close(self.pidfd)


class ForkServer:
    """May be used from several threads. `logs` is told to whoever looks at the list of processes."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.lock = Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: _socket.socket | None = None

    def fork(self, folder: Path, environment: Mapping[str, str], lock: int, errors: int) -> Forked | None:
        """A supervisor with this lock and this file for its own errors; None when it is not known whether there is one.

        Raises Unavailable, and OSError when no process can be made.
        """
        from dispatcher.supervisor import forkserver as wire

        request = plain_json.dumps({"folder": str(folder), "environment": dict(environment)}).encode()
        with self.lock:
            connection = self._connected()
            try:
                wire.send(connection, len(request).to_bytes(wire.LENGTH, "big"), (lock, errors))
                wire.send(connection, request)
            except OSError:
                self._end()
                raise Unavailable from None
            try:
                said, descriptors = wire.receive(connection, 1)
            except OSError:
                said, descriptors = b"", []
            if not said:
                self._end()
                return None
        if said == wire.REFUSED:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return Forked(descriptors[0])

    def close(self) -> None:
        """The server ends; what it forked goes on."""
        with self.lock:
            self._end()

    def _connected(self) -> _socket.socket:
        if self.connection is None:
            if not hasattr(os, "pidfd_open"):
                raise Unavailable
            self.connection, theirs = _pair()
            try:
                end = theirs.fileno()
                words = ("--fork", str(end), str(self.logs))
                self.process = start_python(words, _loader(), (end,), subprocess.DEVNULL)
            except OSError:
                self._end()
                raise Unavailable from None
            finally:
                theirs.close()
            self._greet(self.connection)
        return self.connection

    def _greet(self, connection: _socket.socket) -> None:
        """Only a server that is there is asked for anything: what it never heard may be done by others."""
        from dispatcher.supervisor import forkserver as wire

        try:
            said = wire.receive(connection, 1)[0]
        except OSError:
            said = b""
        if said != wire.READY:
            self._end()
            raise Unavailable

    def _end(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None:
            self.process.kill()  # it holds nothing; one that is stopped would never see the end of its connection
            self.process.wait()
            self.process = None


def _loader() -> dict[str, str]:
    """What the dynamic loader was told for us holds for the server; nothing else of our environment concerns it."""
    return {name: value for name, value in os.environ.items() if name.startswith(("LD_", "DYLD_"))}


def _pair() -> tuple[_socket.socket, _socket.socket]:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    ours.settimeout(PATIENCE)
    return ours, theirs


def start_python(
    words: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int], errors: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    """This package's program in an interpreter of its own, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-X", "utf8", PROGRAM, *words],
        env=dict(environment),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=tuple(descriptors),
        start_new_session=True,
    )
