"""How far long work is: one line on a terminal that is drawn anew and goes at the end; nothing in a file or pipe.

Nothing is said in the first second, so what is quick stays quiet, and nothing of it is ever in the data on stdout.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

FIRST = 1.0  # seconds
AGAIN = 0.1
_BAR = 20


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Gives the function that is told how many are done."""
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    due = time.monotonic() + FIRST
    drawn = False

    def tell(done: int) -> None:
        nonlocal due, drawn
        now = time.monotonic()
        if not terminal or now < due:
            return
        due = now + AGAIN
        drawn = True
        sys.stderr.write(f"\r\x1b[K{_line(done, what, total)}")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        if drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def counted(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The same items; says how many were taken."""
    with counting(what, total) as tell:
        for done, item in enumerate(items):
            tell(done)
            yield item


def _line(done: int, what: str, total: int | None) -> str:
    if not total:
        return f"{done:,} {what} ..."
    full = min(_BAR, _BAR * done // total)
    return f"[{'#' * full}{'.' * (_BAR - full)}] {done:,} of {total:,} {what}"
