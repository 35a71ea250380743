"""Two things measured beside each other: machines drift, so only ratios of one run mean something.

All sides take turns (A B A B), the first round is thrown away, and medians are compared. Rows are printed as Markdown.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Side = Callable[[], "Cost"]


class Cost(NamedTuple):
    """Seconds of the clock, and of the processor (with all children that were waited for)."""

    wall: float
    cpu: float


def alternate(sides: Mapping[str, Side], rounds: int) -> dict[str, Cost]:
    """The median cost of each side."""
    seen: dict[str, list[Cost]] = {name: [] for name in sides}
    for round_ in range(rounds + 1):
        for name, side in sides.items():
            cost = side()
            if round_:
                seen[name].append(cost)
        say(f"round {round_} of {rounds}")
    return {
        name: Cost(statistics.median(one.wall for one in costs), statistics.median(one.cpu for one in costs))
        for name, costs in seen.items()
    }


def timed(work: Callable[[], object]) -> Cost:
    cpu, wall = _cpu(), time.perf_counter()
    work()
    return Cost(time.perf_counter() - wall, _cpu() - cpu)


def process(words: Sequence[str], **options: object) -> Cost:
    """One process from start to end, its output thrown away. A failure is an error."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "check": True, **options}
    return timed(lambda: subprocess.run(words, **options))  # type: ignore[call-overload]


def _cpu() -> float:
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in spent)


def say(line: str) -> None:
    """Progress, for whoever watches."""
    sys.stderr.write(f"\r\x1b[K{line}" if sys.stderr.isatty() else "")
    sys.stderr.flush()


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table: the first column left, the others right."""
    say("")
    lines = [titles, ["---", *("---:" for _ in titles[1:])], *rows]
    for line in lines:
        sys.stdout.write("| " + " | ".join(str(cell) for cell in line) + " |\n")


def text(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.2f} ms"


def against(ratio: float, goal: float) -> str:
    """The goal, and whether it is met."""
    return f"{goal:g}x {'met' if ratio <= goal else '**missed**'}"
