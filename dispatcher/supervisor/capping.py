"""Keeps an output file that a worker appends to below a size: its head and its tail stay, the middle goes.

Linux: the middle is punched out, so offsets stay and the writer notices nothing (ext4, xfs, btrfs, tmpfs; seen on a log
that was still being written). Where the file system cannot, the file is cut to its head and grows again from there.
"""

from __future__ import annotations

import os

from dispatcher.supervisor import kernel

BLOCK = 65536  # a multiple of every block size in use, so that a hole has no ragged ends


class Cap:
    """`limit` bytes may stay on disk; 0 = no cap."""

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.head = limit // 4 // BLOCK * BLOCK
        self.tail = limit // 2
        self.removed = 0
        self.cut = False
        self._hole_end = self.head

    def check(self, size: int) -> bool:
        """`size` bytes have been read so far; nothing beyond them is touched. True when the file was cut short."""
        if self.limit <= 0 or self.head + size - self._hole_end <= self.limit:
            return False
        end = (size - self.tail) // BLOCK * BLOCK
        if end <= self._hole_end:
            return False
        if self.cut or not kernel.punch_hole(self.path, self._hole_end, end - self._hole_end):
            return self._cut_short(size)
        self.removed += end - self._hole_end
        self._hole_end = end
        return False

    def _cut_short(self, size: int) -> bool:
        self.cut = True
        self.removed += size - self.head
        os.truncate(self.path, self.head)
        return True
