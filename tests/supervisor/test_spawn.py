"""The fork of the worker: it is in its control group before the program runs, born there or moved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.supervisor import cgroup, kernel, spawn


@pytest.fixture
def group(tmp_path: Path) -> Iterator[cgroup.Group]:
    made = cgroup.create(f"test-{os.getpid()}-{tmp_path.name}")
    if made is None:
        pytest.skip("no control group can be made here")
    yield made
    assert made.remove(), "somebody is left in the group"


@pytest.mark.parametrize("call", [kernel.SYS_CLONE3, 100_000], ids=["born there", "no such system call: moved"])
def test_the_program_runs_in_its_group(
    group: cgroup.Group, tmp_path: Path, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "SYS_CLONE3", call)
    out = tmp_path / "out"
    pid = spawn.spawn(
        ["/bin/sh", "-c", "cat /proc/self/cgroup"],
        dict(os.environ),
        cwd="/",
        stdin="/dev/null",
        stdout=str(out),
        stderr=str(tmp_path / "err"),
        group=group.path,
    )
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert Path(group.path).name in out.read_text()


def test_a_group_that_is_gone_keeps_nobody_from_starting(tmp_path: Path) -> None:
    pid = spawn.spawn(
        ["/bin/true"],
        {},
        cwd="/",
        stdin="/dev/null",
        stdout=str(tmp_path / "out"),
        stderr=str(tmp_path / "err"),
        group=str(tmp_path / "gone"),
    )
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
