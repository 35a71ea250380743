"""Runs a command that ends when whoever asked for it is gone, however that happened.

`python -m dispatcher.demo.tether COMMAND...` has the reading end of a pipe as its standard input. Nothing is written to
it. It is at its end when the process that holds the other end is gone, also by `kill -9`, and the command gets SIGTERM
then. Linux could ask the kernel for that signal; a pipe does the same on every system.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence


def main(command: Sequence[str]) -> int:
    """The exit code of the command; 128 and more when a signal ended it, as shells count."""
    signal.signal(signal.SIGINT, lambda number, frame: None)  # Ctrl-C reaches the command by itself
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    threading.Thread(target=_end_with_the_pipe, args=(process,), daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


def _end_with_the_pipe(process: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1024):
        pass
    process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
