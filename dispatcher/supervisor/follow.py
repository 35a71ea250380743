"""A file that another process appends to, read as whole lines as it grows, in bounded memory.

Reads at its own offset, so nothing is shared with the writer. Lines come in blocks, as they were read, because cutting
each of them out costs more than looking at it. A line longer than `LINE` arrives cut to its head; the rest of it is
dropped. Bytes stay bytes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = 32 * 1024  # of a look: mostly little is new, and a larger buffer costs a system call of its own
CHUNK = 256 * 1024
LINE = 1024 * 1024


class Follower:
    """`offset`: behind the last line that was given out, or of a long one what was read; `seen`: of all bytes."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        self.offset = 0
        self.seen = 0
        self._parts: list[bytes] = []  # of a line that is longer than a chunk, while its end is not there
        self._held = 0
        self._last = (b"", 0)  # the chunk that was read last, and where its whole lines end

    def blocks(self, budget: int) -> Iterator[tuple[bytes, int]]:
        """Whole lines with their ends: the bytes before `end` of each block. What is behind it comes with the next one.

        Stops after about `budget` bytes or at the end of the file.
        """
        stop, size = self.offset + budget, min(FIRST, CHUNK)
        while self.offset < stop:
            chunk = os.pread(self._fd, size, self.offset)
            full, more = len(chunk) == size, size < CHUNK
            size = CHUNK if full else size
            self.seen = max(self.seen, self.offset + len(chunk))
            end = chunk.rfind(b"\n") + 1
            self._last = (chunk, len(chunk) if self._held else end)
            if self._held and (first := chunk.find(b"\n") + 1):
                self.offset += first
                line = self._take(chunk[: first - 1]) + b"\n"
                yield line, len(line)
                continue  # at what came with its end
            if end:
                self.offset += end
                yield chunk, end
            elif (full and not more) or (chunk and self._held):
                self.offset += len(chunk)
                self._hold(chunk)
            if not full:
                return  # at the end of the file, or of what there is of a line that is still being written

    def lines(self, budget: int) -> Iterator[bytes]:
        """The same line by line, without their ends."""
        for block, end in self.blocks(budget):
            yield from block[: end - 1].split(b"\n")

    def _hold(self, part: bytes) -> None:
        part = part[: LINE - self._held]
        if part:
            self._parts.append(part)
            self._held += len(part)

    def _take(self, part: bytes) -> bytes:
        self._hold(part)
        line = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return line

    def rest(self) -> bytes:
        """A last line without its end."""
        part = os.pread(self._fd, LINE, self.offset)
        self.offset += len(part)
        return self._take(part)

    def skip(self) -> None:
        """Go to the end without looking."""
        self.offset = self.seen = max(self.offset, os.fstat(self._fd).st_size)

    def rewind(self) -> None:
        """After the file was cut: go on at its new end, with what was seen of the line that is being written."""
        size = os.fstat(self._fd).st_size
        if size < self.offset:
            chunk, end = self._last
            self._hold(chunk[end:])
        self.offset = self.seen = min(self.offset, size)

    def close(self) -> None:
        os.close(self._fd)
