"""What the stores of both CLIs share: a title for a session without one, and how long the worker was at it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def first_line(prompt: str, limit: int = 200) -> str:
    """The first line that says something."""
    for line in prompt.splitlines():
        if words := " ".join(line.strip("# \t").split()):
            return words[:limit]
    return "a session without a prompt"


def working_time(spans: Iterable[Sequence[float]]) -> float:
    """Seconds covered by the spans (the first and last moment of each); what overlaps counts once."""
    total, end = 0.0, float("-inf")
    for first, last in sorted((min(span), max(span)) for span in spans if span):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return round(total, 3)
