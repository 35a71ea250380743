"""A worker's standard input that is handed over later: until then it waits in a pipe, with nothing to do.

So a CLI whose approval gate is not active has no prompt either. If this process ends, the pipe is closed and the worker
finds an empty input.
"""

from __future__ import annotations

import os


class Held:
    """`path` is what the worker opens as its standard input."""

    def __init__(self, file: str) -> None:
        with open(file, "rb") as opened:
            self._left = memoryview(opened.read())
        self._reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        self.path = f"/dev/fd/{self._reader}"

    def started(self) -> None:
        """The worker has it open; what it does not read any more must not block us."""
        os.close(self._reader)

    def give(self) -> bool:
        """Write as much as the pipe takes. True when all is given, or when nobody reads it."""
        try:
            while self._left:
                self._left = self._left[os.write(self.writer, self._left) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            pass
        self.close()
        return True

    def close(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
        self.writer = -1
