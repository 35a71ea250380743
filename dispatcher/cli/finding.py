"""One thing that `doctor` found, and how bad it is."""

from __future__ import annotations

from typing import NamedTuple

OK = "ok"
UNSEEN = "unseen"  # could not be looked at, so nobody knows
WARN = "warn"
BAD = "bad"


class Finding(NamedTuple):
    area: str
    state: str
    text: str
    hint: str = ""
