"""A runner lives as long as its kernel lock; files, process ids and inherited handles prove nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.errors import InternalError, StoreError
from dispatcher.store import locks
from tests.store.processes import ROOT

_HOLD = """
import subprocess, sys
from dispatcher.store import locks
lock = locks.RunnerLock(sys.argv[1])
owner = lock.acquire()
child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, close_fds=False)
print(owner, child.pid, flush=True)
sys.stdin.read()
"""


def test_a_life(tmp_path: Path) -> None:
    with locks.RunnerLock(tmp_path) as lock:
        owner = lock.owner
        assert owner is not None
        assert locks.owner_alive(tmp_path, owner)
        assert locks.clean(tmp_path) == 0
        with pytest.raises(InternalError):
            lock.acquire()
    assert not locks.owner_alive(tmp_path, owner)
    assert list(tmp_path.iterdir()) == []
    assert lock.acquire() != owner
    lock.release()


def test_a_killed_runner_is_dead_although_its_child_lives(tmp_path: Path) -> None:
    """A worker that outlives its dispatcher must not look like it, even when the worker got every handle."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert holder.stdout is not None
    owner, child = holder.stdout.readline().split()
    try:
        assert locks.owner_alive(tmp_path, owner)
        holder.kill()
        holder.communicate()
        os.kill(int(child), 0)
        assert not locks.owner_alive(tmp_path, owner)
        assert (tmp_path / f"runner-{owner}.lock").exists()
        assert locks.clean(tmp_path) == 1
        assert list(tmp_path.iterdir()) == []
    finally:
        os.kill(int(child), 9)
        holder.kill()
        holder.communicate()


def test_a_stale_file_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "runner-old.lock").write_text(f"pid {os.getpid()}\n")
    assert not locks.owner_alive(tmp_path, "old")
    assert not locks.owner_alive(tmp_path, "never-was")


def test_a_lock_removed_while_it_was_made_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`clean` of another runner may come between making the file and locking it."""
    real, removed = fcntl.flock, list[Path]()

    def flock(handle: int, how: int) -> None:
        if not removed:
            (file,) = tmp_path.iterdir()
            file.unlink()
            removed.append(file)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locks.RunnerLock(tmp_path) as lock:
        assert lock.owner is not None
        assert removed[0].name != f"runner-{lock.owner}.lock"
        assert locks.owner_alive(tmp_path, lock.owner)


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("")
    with pytest.raises(StoreError, match="cannot be made"):
        locks.RunnerLock(tmp_path / "logs").acquire()
