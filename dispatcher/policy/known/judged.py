"""What a judgement of one command is."""

from __future__ import annotations

import re
from collections.abc import Sequence

Judged = tuple[tuple[str, ...], str]  # tags of `policy.Tag`, and why
FINE: Judged = ((), "")


def has_flag(args: Sequence[str], letter: str, long: str) -> bool:
    return any(word == long or (re.fullmatch(r"-[a-zA-Z]+", word) and letter in word) for word in args)


def has_any(args: Sequence[str], names: Sequence[str]) -> bool:
    return any(word in names for word in args)
