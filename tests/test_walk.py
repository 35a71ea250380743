"""Small decisions of the walk that need no worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from dispatcher import programs, routing, scheduler
from dispatcher.runner import walk
from dispatcher.task import Billing, Candidate, Credential

from .test_gate import gate

CHOICE = routing.Choice(Candidate("one", "opencode", "a/b", Credential("c", Billing.FREE)), "first of the route")
NOBODY = routing.Plan((), (), None, "opencode is not installed")
FOUND = routing.Plan((CHOICE,), (), None, "first of the route")
HELD = routing.Plan((), (), 99.0, "all candidates are on hold")


@pytest.mark.parametrize(
    ("missing", "first", "looks", "chosen"),
    [
        ({"opencode": "not installed"}, NOBODY, 2, 1),  # it was replacing itself
        ({}, NOBODY, 1, 0),  # nobody is missing: a person is asked at once
        ({"opencode": "not installed"}, HELD, 1, 0),
        ({"opencode": "not installed"}, FOUND, 1, 1),  # another one can
    ],
)
def test_a_program_that_is_not_there_is_looked_for_twice(
    missing: dict[str, str], first: routing.Plan, looks: int, chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, slept = [first, FOUND], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(walk, "route", lambda *_: plans.pop(0))
    monkeypatch.setattr(programs, "missing", lambda *_: missing)
    monkeypatch.setattr(anyio, "sleep", sleep)
    unused: Any = None
    ctx: Any = SimpleNamespace(config=None, environ={})
    found = anyio.run(walk.patient_route, ctx, unused, unused)
    assert (len(found.choices), 2 - len(plans)) == (chosen, looks)
    assert slept == ([walk.PROGRAM_AGAIN] if looks == 2 else [])


def test_pauses_of_workers_that_met_on_one_trouble_differ() -> None:
    waits = [walk.spread(3.0, f"{number}-0123456789ab{number * 4321:04x}") for number in range(15)]
    assert len(set(waits)) == len(waits)
    assert all(3.0 <= wait <= 4.5 for wait in waits)
    assert (walk.spread(3.0, "1-0000"), walk.spread(3.0, "1-ffff")) == (3.0, 4.5)


@pytest.mark.parametrize(("harness", "pauses"), [("opencode", 3), ("scripted", 0)])
def test_real_clis_start_one_after_the_other(harness: str, pauses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their first moments, in which they meet on a store of their own and take a core each, do not fall together."""
    told: list[object] = []

    async def sleep(seconds: float) -> None:
        told.append(seconds)

    tasks: list[Any] = [1, 2, 3]
    loop = object.__new__(scheduler.Loop)
    vars(loop).update(
        gate=gate(monkeypatch, [None], harness)[0], ctx=SimpleNamespace(config=None, store=None, owner=""), options=None
    )
    vars(loop).update(ends=lambda: False, begin=lambda group, task: told.append(f"task {task}"))
    monkeypatch.setattr(scheduler, "claim", lambda *_: tasks.pop(0) if tasks else None)
    monkeypatch.setattr(anyio, "sleep", sleep)
    group: Any = None
    anyio.run(loop.claim_all, group)
    assert [item for item in told if isinstance(item, str)] == ["task 1", "task 2", "task 3"]
    assert told.count(scheduler.STAGGER) == pauses
    assert told[:2] == ["task 1", scheduler.STAGGER if pauses else "task 2"]
