"""A file that another process appends to, read line by line as it grows, in bounded memory.

Reads at its own offset, so nothing is shared with the writer. A line longer than `LINE` arrives cut to its head; the
rest of it is dropped. Bytes stay bytes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 64 * 1024
LINE = 1024 * 1024


class Follower:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        self.offset = 0
        self._parts: list[bytes] = []  # of a line whose end is not there yet
        self._held = 0

    def lines(self, budget: int) -> Iterator[bytes]:
        """The lines that became whole, without their ends; stops after about `budget` bytes or at the end."""
        stop = self.offset + budget
        while self.offset < stop:
            chunk = os.pread(self._fd, CHUNK, self.offset)
            if not chunk:
                return
            self.offset += len(chunk)
            first, *rest = chunk.split(b"\n")
            if not rest:
                self._hold(first)
                continue
            yield self._take(first)
            last = rest.pop()
            yield from rest
            self._hold(last)

    def _hold(self, part: bytes) -> None:
        part = part[: LINE - self._held]
        if part:
            self._parts.append(part)
            self._held += len(part)

    def _take(self, part: bytes) -> bytes:
        if self._parts:
            self._hold(part)
            part = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
        return part

    def rest(self) -> bytes:
        """A last line without its end."""
        return self._take(b"")

    def skip(self) -> None:
        """Go to the end without looking."""
        self.offset = max(self.offset, os.fstat(self._fd).st_size)

    def rewind(self) -> None:
        """After the file was cut: go on at its new end."""
        self.offset = min(self.offset, os.fstat(self._fd).st_size)

    def close(self) -> None:
        os.close(self._fd)
