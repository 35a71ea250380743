"""The lines of an output file that may be capped: holes are skipped, and so are the halves of the lines at their edges.

Memory is bounded: a line longer than the limit arrives cut to its head.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CHUNK = 256 * 1024
LONGEST = 16 * 1024 * 1024


def lines(path: Path, longest: int = LONGEST) -> Iterator[bytes]:
    """Without their ends. A file that is not there has none."""
    for block in blocks(path, longest):
        yield from (line[:longest] for line in block[:-1].split(b"\n"))


def blocks(path: Path, longest: int = LONGEST) -> Iterator[bytes]:
    """The same as it is read: many lines at once, each with its end."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        for number, (start, end) in enumerate(_pieces(fd)):
            yield from _piece(fd, start, end, longest, skip_first=number > 0)
    finally:
        os.close(fd)


def holes(path: Path) -> int:
    """Bytes that were taken out of the middle."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        return os.fstat(fd).st_size - sum(end - start for start, end in _pieces(fd))
    finally:
        os.close(fd)


def _pieces(fd: int) -> list[tuple[int, int]]:
    """Where the data lies. A file system that knows no holes answers with one piece."""
    size = os.fstat(fd).st_size
    pieces = []
    offset = 0
    while offset < size:
        try:
            start = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError:  # only a hole up to the end
            break
        offset = os.lseek(fd, start, os.SEEK_HOLE)
        pieces.append((start, offset))
    return pieces


def _piece(fd: int, start: int, end: int, longest: int, skip_first: bool) -> Iterator[bytes]:
    whole = end == os.fstat(fd).st_size
    held = bytearray()  # of a line whose end was not read yet
    offset = start
    while offset < end:
        chunk = os.pread(fd, min(CHUNK, end - offset), offset)
        if not chunk:
            break
        offset += len(chunk)
        first, last = chunk.find(b"\n") + 1, chunk.rfind(b"\n") + 1
        if not first:
            held += chunk[: max(0, longest - len(held))]
            continue
        if held and not skip_first:
            held += chunk[: min(first - 1, max(0, longest - len(held)))]
            yield bytes(held) + b"\n"
        if (begin := first if held or skip_first else 0) < last:
            yield chunk[begin:last]
        skip_first = False
        held = bytearray(chunk[last : last + longest])
    if held and whole and not skip_first:
        yield bytes(held) + b"\n"
