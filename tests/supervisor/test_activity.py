"""Who counts as working, as a table: CPU share and bytes, of processes from before and from within the tool call."""

from __future__ import annotations

import pytest

from dispatcher.supervisor import processes
from dispatcher.supervisor.activity import Activity
from dispatcher.supervisor.processes import Process

TICKS = processes.TICKS
CALL = 1000.0  # seconds since boot
OLD, YOUNG = int((CALL - 100) * TICKS), int((CALL + 1) * TICKS)


def process(pid: int, start: int, cpu: float) -> Process:
    return Process(pid, 1, start, int(cpu * TICKS), "x", True)


@pytest.mark.parametrize(
    ("start", "cpu", "written", "busy"),
    [
        (OLD, 0.2, 0, False),  # a harness that hangs: 1.3 % of a core
        (OLD, 0.2, 5000, False),  # and prints its heartbeat
        (OLD, 5.0, 0, True),  # a harness that works: 33 %
        (YOUNG, 0.0, 0, False),  # ssh that waits for ever
        (YOUNG, 0.05, 0, False),
        (YOUNG, 0.3, 0, True),
        (YOUNG, 0.0, 1, True),  # a log that grows
    ],
)
def test_within_fifteen_seconds(
    start: int, cpu: float, written: int, busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bytes_written = {7: 100}
    monkeypatch.setattr(processes, "written", bytes_written.__getitem__)
    activity = Activity()
    assert activity.sample([process(7, start, 50.0)], 15.0, CALL)  # nothing to compare with yet
    bytes_written[7] += written
    assert activity.sample([process(7, start, 50.0 + cpu)], 15.0, CALL) is busy


def test_everything_is_the_tool_when_there_is_no_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "written", lambda pid: 0)
    activity = Activity()
    activity.sample([process(7, OLD, 50.0)], 15.0, 0.0)
    assert activity.sample([process(7, OLD, 50.2)], 15.0, 0.0)


def test_a_new_process_counts_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "written", lambda pid: 0)
    activity = Activity()
    activity.sample([], 15.0, CALL)
    assert activity.sample([process(8, YOUNG, 3.0)], 15.0, CALL)
