"""Files and pipes that `import` and `classify` read: a line at a time, so that memory never depends on their length.

A log may be of any length, and may come through a pipe; what has no end (a device, a pipe that one line fills for ever)
is refused, and of a file that grows meanwhile only what was there at the start is read.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dispatcher.errors import BadInput

LONGEST = 256 * 1024 * 1024  # bytes of a line: the longest brief that can be stored, each character escaped, fits
LONGEST_FIRST = 4096  # what a file is stands in its first line, and is short


def stdin(hint: str) -> bytes:
    """All that comes, as far as one line could be long; BadInput for more."""
    data = sys.stdin.buffer.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise BadInput(f"stdin is larger than {LONGEST // 1024**2} MiB", hint=hint)
    return data


def lines(file: Path, hint: str) -> Iterator[str]:
    """Without their ends; `-` is stdin. A first line that is too long comes cut, and its reader will not know it.

    BadInput for what cannot be read, with `hint`, and for any other line that is too long.
    """
    try:
        if str(file) == "-":
            yield from _lines(sys.stdin.buffer, "stdin", hint)
            return
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise BadInput(f"{file} is a device", hint=f"{hint}; - reads stdin")
            yield from _lines(stream, str(file), hint)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}", hint=hint) from None


def _lines(stream: BinaryIO, name: str, hint: str) -> Iterator[str]:
    found = os.fstat(stream.fileno())
    left = found.st_size if stat.S_ISREG(found.st_mode) else sys.maxsize
    limit = LONGEST_FIRST
    number = 0
    while line := stream.readline(min(limit + 1, left)):
        number += 1
        left -= len(line)
        if len(line) > limit and number > 1:
            raise BadInput(f"{name}:{number}: this line is longer than {LONGEST // 1024**2} MiB", hint=hint)
        yield line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        limit = LONGEST
