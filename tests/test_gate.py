"""May one more worker start: the host is asked before each claim, and what just started is counted in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from dispatcher import host, scheduler
from dispatcher.task import Limits

GIB = 1024**3
ROOMY = host.Load(per_core=0.5, memory=8 * GIB, disk=100 * GIB, disk_path="/x")


@pytest.mark.parametrize(
    ("load", "starting", "words"),
    [
        (ROOMY, 0, None),
        (ROOMY, 8, None),  # 8 GiB - 8 x 0.68 GiB is still above 1 GiB
        (ROOMY, 11, "with 11 workers just started, is below min_free_memory"),
        (host.Load(4.1, 8 * GIB, 100 * GIB, "/x"), 0, "max_load_per_core 4"),
        (host.Load(4.0, 8 * GIB, 100 * GIB, "/x"), 0, None),
        (host.Load(0.5, GIB - 1, 100 * GIB, "/x"), 0, "min_free_memory"),
        (host.Load(0.5, 8 * GIB, 2 * GIB - 1, "/full"), 0, "at /full is below min_free_disk"),
    ],
)
def test_refusals(load: host.Load, starting: int, words: str | None) -> None:
    said = host.refusal(load, Limits(), starting)
    assert said is None if words is None else said is not None and words in said


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("dispatcher.scheduler.time.monotonic", lambda: now[0])
    return now


def gate(monkeypatch: pytest.MonkeyPatch, answers: list[str | None], *harnesses: str) -> tuple[Any, list[int]]:
    """A gate whose host answers in turn, and the numbers of fresh workers that it was asked with."""
    asked: list[int] = []

    def admission(limits: Limits, paths: object, starting: int = 0) -> str | None:
        asked.append(starting)
        return answers[min(len(asked), len(answers)) - 1]

    monkeypatch.setattr("dispatcher.scheduler.host.admission", admission)
    candidates = {name: SimpleNamespace(harness=name) for name in harnesses}
    config: Any = SimpleNamespace(
        limits=Limits(), copies_root=Path("/c"), roster=SimpleNamespace(candidates=candidates)
    )
    return scheduler.Gate(config, Path("/l")), asked


def test_a_worker_that_was_just_started_is_counted_until_it_shows(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    made, asked = gate(monkeypatch, [None], "opencode", "scripted")
    made.starts = {1: 1000.0, 2: 995.0, 3: 980.0}
    assert made.open()
    clock[0] = 1006.0
    made.open()
    assert asked == [2, 1]


def test_scripted_workers_weigh_nothing_and_are_not_staggered(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    made, asked = gate(monkeypatch, [None], "scripted")
    made.starts = {1: 1000.0}
    assert made.open()
    assert asked == [0]
    assert not made.heavy


def test_patience_starts_with_the_first_no_and_anew_after_a_yes(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    made, _ = gate(monkeypatch, ["busy", "busy", "busy", None, "busy"], "claude")
    assert not made.patient(), "nobody has said no yet"
    assert not made.open()
    clock[0] += host.PATIENCE - 1
    assert not made.open()
    assert made.patient()
    clock[0] += 1
    assert not made.open()
    assert not made.patient()
    assert made.open()
    assert made.busy is None
    assert not made.open()
    assert made.patient()


def test_a_wait_for_the_host_is_told_whenever_it_began(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    """The host was busy before there was anything to claim: two silent minutes between one task and the next looked
    like a fault. Its end is told, too."""
    made, _ = gate(monkeypatch, ["load 6.5", "load 6.5", "load 6.2", None, None], "scripted")
    told: list[str] = []
    loop: Any = object.__new__(scheduler.Loop)
    loop.gate, loop.draining, loop.started = made, False, 0
    loop.options = scheduler.Options(tell=told.append)
    loop.ctx = SimpleNamespace(store=None, config=None, owner="")
    waiting = [False]
    monkeypatch.setattr(scheduler, "claimable", lambda store: waiting[0])
    monkeypatch.setattr(scheduler, "claim", lambda *_: None)
    for seconds in (0, 60, 60, 3, 5):
        clock[0] += seconds
        anyio.run(loop.claim_all, None)
        waiting[0] = True
    assert told == ["waits for the host: load 6.5", "the host is free again after 123 s"]
