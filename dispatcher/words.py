"""Counts in words, for every sentence that a person reads: 1 file, 2 files, 1,000 files."""

from __future__ import annotations


def plural(count: int, one: str, many: str = "") -> str:
    """`many` is what is not `one` with an s."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {many or one + 's'}"


def of(part: int, whole: int, one: str, many: str = "") -> str:
    """`3 of 7 checks`; `1 of 1 check`."""
    return f"{part:,} of {plural(whole, one, many)}"
