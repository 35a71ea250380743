"""The difficulty of a brief by the rules of a home, in bounded time.

A rule's regular expression is a person's, and some (`(a+)+b`) take longer than the universe lasts on a harmless text.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from dispatcher import difficulty

if TYPE_CHECKING:
    from types import FrameType

    from dispatcher.config import Config
    from dispatcher.task import Brief, Difficulty

SECONDS = 2.0  # of the processor, for all rules together; they usually take microseconds


def difficulty_of(brief: Brief, config: Config, path: str | None) -> tuple[Difficulty, str]:
    """The difficulty and why. Raises ConfigError, also for an expression that takes too long."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        return difficulty.classify(brief, config.difficulty_rules, path=path)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError
