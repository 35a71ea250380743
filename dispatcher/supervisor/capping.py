"""Keeps an output file that a worker appends to below a size: its head and its tail stay, the middle goes.

Linux: the middle is punched out, so offsets stay and the writer notices nothing (ext4, xfs, btrfs, tmpfs; seen on a log
that was still being written). Where the file system cannot, the file is cut to its head and grows again from there.
"""

from __future__ import annotations

import os

BLOCK = 65536  # a multiple of every block size in use, so that a hole has no ragged ends
KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02


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
        if self.cut or not _punch(self.path, self._hole_end, end - self._hole_end):
            return self._cut_short(size)
        self.removed += end - self._hole_end
        self._hole_end = end
        return False

    def _cut_short(self, size: int) -> bool:
        self.cut = True
        self.removed += size - self.head
        os.truncate(self.path, self.head)
        return True


def _punch(path: str, start: int, length: int) -> bool:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = getattr(libc, "fallocate64", None)  # with 64-bit offsets on every machine; not in macOS
    if fallocate is None:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    fd = os.open(path, os.O_WRONLY)
    try:
        return int(fallocate(fd, KEEP_SIZE_PUNCH_HOLE, start, length)) == 0
    finally:
        os.close(fd)
