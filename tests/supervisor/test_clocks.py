"""The clocks as a table: what happens at which second, and which limit is due then. No time passes."""

from __future__ import annotations

import pytest

from dispatcher.supervisor.clocks import STEP, Clocks

Story = list[tuple[float, str]]


def play(story: Story, *, plain: bool = False, until: float, step: float = 1.0) -> tuple[str | None, float]:
    """start 20, stall 60, hard cap 300, grace 10. The first limit that is due, and when."""
    clocks = Clocks(start=20, stall=60, hard_cap=300, grace=10, mono=1000, wall=5e9, plain=plain)
    events = sorted(story)
    now = 0.0
    while now < until:
        now += step
        clocks.advance(1000 + now, 5e9 + now)
        while events and events[0][0] <= now:
            _happen(clocks, events.pop(0)[1])
        if (due := clocks.due()) is not None:
            return due, now
    return None, now


def _happen(clocks: Clocks, event: str) -> None:
    what, _, detail = event.partition(" ")
    match what:
        case "heard":
            clocks.heard()
        case "alive":
            clocks.alive()
        case "finished":
            clocks.finished()
        case "tool":
            clocks.tool_started(detail)
        case "done":
            clocks.tool_ended(detail)
        case "busy" | "idle":
            clocks.sampled(what == "busy")
        case "excuse":
            clocks.excuse(float(detail))


def every(seconds: int, event: str, start: int, stop: int) -> Story:
    return [(float(at), event) for at in range(start, stop, seconds)]


@pytest.mark.parametrize(
    ("story", "due", "at"),
    [
        pytest.param([], "start_silence", 20, id="nothing was ever heard"),
        pytest.param([(18, "busy")], "start_silence", 60, id="busy while it starts: three times as long"),
        pytest.param([(18, "busy"), (30, "idle")], "start_silence", 30, id="busy first, then not"),
        pytest.param([(5, "alive")], "stalled", 65, id="started, then silent"),
        pytest.param([(5, "alive"), (40, "alive")], "stalled", 65, id="a heartbeat proves no progress"),
        pytest.param([(5, "heard"), (40, "heard")], "stalled", 100, id="silence counts from the last progress"),
        pytest.param([(5, "tool a")], "stalled", 65, id="an open call alone is no excuse"),
        pytest.param([(5, "tool a"), *every(10, "busy", 10, 200)], "stalled", 250, id="open call and busy tree"),
        pytest.param([(5, "heard"), *every(10, "busy", 10, 200)], "stalled", 65, id="busy without an open call"),
        pytest.param(
            [(5, "tool a"), (6, "tool b"), (7, "done a"), *every(10, "busy", 10, 100)],
            "stalled",
            150,
            id="one of two calls is still open",
        ),
        pytest.param(
            [(5, "tool a"), (7, "done a"), *every(10, "busy", 10, 100)], "stalled", 67, id="the call has ended"
        ),
        pytest.param([(1, "tool a"), *every(10, "busy", 5, 400)], "hard_cap", 300, id="busy for ever"),
        pytest.param(every(10, "heard", 1, 400), "hard_cap", 300, id="talking for ever"),
        pytest.param([(30, "heard")], "start_silence", 20, id="heard too late"),
        pytest.param([(5, "heard"), (30, "finished")], "finished", 40, id="has its result and stays"),
        pytest.param([(5, "finished"), (12, "heard")], "stalled", 72, id="went on after its result"),
        pytest.param([(5, "tool a"), (30, "finished"), (35, "busy")], "finished", 40, id="a call left open at the end"),
        pytest.param(
            [*every(10, "heard", 1, 300), (295, "finished")], "finished", 305, id="the cap passes in the grace"
        ),
        pytest.param([(5, "heard"), (10, "excuse 40")], "stalled", 110, id="a stated wait is not silence"),
        pytest.param([(5, "heard"), (10, "excuse 40"), (20, "heard")], "stalled", 80, id="the wait was shorter"),
        pytest.param(
            [*every(10, "heard", 1, 100), (100, "excuse 50"), *every(10, "heard", 150, 400)],
            "hard_cap",
            350,
            id="a wait is no running time",
        ),
    ],
)
def test_the_first_limit(story: Story, due: str, at: float) -> None:
    assert play(story, until=500) == (due, at)


def test_a_plain_command_needs_no_open_call() -> None:
    assert play([(1, "heard"), *every(10, "busy", 10, 200)], plain=True, until=500) == ("stalled", 250)


def test_zero_switches_a_clock_off() -> None:
    clocks = Clocks(start=0, stall=0, hard_cap=0, grace=0, mono=0, wall=0, plain=False)
    for second in range(100_000):
        clocks.advance(second, second)
    assert clocks.due() is None
    assert clocks.sample_due() is None


def test_a_suspended_laptop_is_not_a_hung_worker() -> None:
    """The lid was closed for 8 hours: the wall clock jumps, the monotonic clock stands still."""
    clocks = Clocks(start=20, stall=60, hard_cap=300, grace=10, mono=0, wall=0, plain=False)
    clocks.advance(5, 5)
    clocks.heard()
    clocks.advance(10, 10 + 8 * 3600)
    assert clocks.due() is None
    assert clocks.active == 10
    assert clocks.slept == pytest.approx(8 * 3600)


def test_a_frozen_supervisor_is_not_a_hung_worker() -> None:
    """A paused virtual machine or SIGSTOP: the monotonic clock jumps too, between two looks."""
    clocks = Clocks(start=20, stall=60, hard_cap=300, grace=10, mono=0, wall=0, plain=False)
    clocks.advance(1, 1)
    clocks.heard()
    clocks.advance(9000, 9000)
    assert clocks.due() is None
    assert clocks.active == 1 + STEP


def test_a_wall_clock_that_is_set_back_changes_nothing() -> None:
    clocks = Clocks(start=20, stall=60, hard_cap=300, grace=10, mono=0, wall=1e9, plain=False)
    clocks.advance(4, 5)
    assert (clocks.active, clocks.slept) == (4, 0)


def test_the_tree_is_looked_at_only_when_silence_lasts() -> None:
    clocks = Clocks(start=20, stall=60, hard_cap=300, grace=10, mono=0, wall=0, plain=False)
    clocks.heard()
    looks = []
    for second in range(1, 61):
        clocks.advance(second, second)
        if (elapsed := clocks.sample_due()) is not None:
            looks.append((second, elapsed))
            clocks.sampled(False)
    assert looks == [(15, 15), *((at, 8) for at in range(23, 61, 8))]
