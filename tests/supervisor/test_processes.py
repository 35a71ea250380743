"""Identities: what /proc says, and that a signal never reaches the wrong process."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from dispatcher.supervisor import processes
from tests.supervisor.support import until

STAT = b"4711 (a (strange) name) S 4000 4711 4711 0 -1 4194560 1 2 0 0 10 20 3 4 20 0 1 0 987654 1000 200 184467 1 1 0"


def test_a_name_may_hold_brackets_and_blanks() -> None:
    process = processes.parse_stat(4711, STAT)
    assert process is not None
    assert (process.name, process.parent, process.start, process.cpu) == ("a (strange) name", 4000, 987654, 37)
    assert process.alive


@pytest.mark.parametrize(
    ("state", "threads", "alive"),
    [
        (b"S", b"1", True),
        (b"D", b"1", True),
        (b"T", b"1", True),
        (b"Z", b"1", False),
        (b"X", b"1", False),
        (b"Z", b"3", True),
    ],
)
def test_who_is_alive(state: bytes, threads: bytes, alive: bool) -> None:
    stat = STAT.replace(b") S 4000", b") " + state + b" 4000").replace(
        b"20 0 1 0 987654", b"20 0 " + threads + b" 0 987654"
    )
    process = processes.parse_stat(4711, stat)
    assert process is not None
    assert process.alive is alive


@pytest.mark.parametrize("stat", [b"", b"1 (x", b"1 (x) S 2 3"])
def test_a_process_that_vanishes_while_it_is_read(stat: bytes) -> None:
    assert processes.parse_stat(1, stat) is None


def test_the_portable_table_knows_the_same_parents() -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        try:
            listing = subprocess.run(
                ["ps", "-A", "-o", "pid=,ppid=,lstart=,state=,comm="], capture_output=True, check=True
            ).stdout
            row = processes.parse_ps(listing)[child.pid]
            assert (row.parent, row.name, row.alive) == (os.getpid(), "sleep", True)
            again = subprocess.run(
                ["ps", "-A", "-o", "pid=,ppid=,lstart=,state=,comm="], capture_output=True, check=True
            ).stdout
            assert processes.parse_ps(again)[child.pid].start == row.start
        finally:
            child.kill()


def test_a_recycled_pid_is_never_signalled() -> None:
    """The pid is right, the start time is that of the process that had it before."""
    with subprocess.Popen(["sleep", "100"]) as child:
        try:
            process = processes.get(child.pid)
            assert process is not None
            assert not processes.send((child.pid, process.start - 1), signal.SIGKILL)
            assert not processes._send_plain((child.pid, process.start - 1), signal.SIGKILL)
            assert child.poll() is None
            assert not processes.is_alive((child.pid, process.start - 1))
            assert processes.is_alive(process.identity)
            assert processes.send(process.identity, signal.SIGKILL)
            assert child.wait() == -signal.SIGKILL
            assert not processes.send(process.identity, signal.SIGKILL)
        finally:
            child.kill()


def test_without_pidfd_the_identity_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with subprocess.Popen(["sleep", "100"]) as child:
        process = processes.get(child.pid)
        assert process is not None
        assert processes.send(process.identity, signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM


def test_the_marker_is_a_whole_variable() -> None:
    environment = {"DISPATCHER_ATTEMPT": "m-12", "XDISPATCHER_ATTEMPT": "m-1"}
    with subprocess.Popen(["sleep", "100"], env=environment) as child:
        try:
            until(lambda: processes.has_marker(child.pid, "m-12"))  # empty for a moment while it executes
            assert not processes.has_marker(child.pid, "m-1")
        finally:
            child.kill()
