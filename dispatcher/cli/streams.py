"""Our own stdin, stdout and stderr: whoever started us may have closed them, or sent them to a disk that is full.

Output that cannot be written ends the command with one line (`OutputLost`; a reader that has gone is Python's own
BrokenPipeError). What cannot be said on stderr is lost and changes nothing: no task may fail because a log is full.
"""

from __future__ import annotations

import io
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO


class OutputLost(Exception):
    """Stdout cannot be written. No DispatcherError, which many take for a fault of one brief or task and go on."""


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return _written(self, super().write, data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputLost(error.strerror or str(error)) from error


class _Messages(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return _written(self, super().write, data)
        except OSError:
            return len(data)


def _written(stream: io.FileIO, write: Any, data: Any) -> int:
    """A terminal that another program left in non-blocking mode takes nothing for a while (None): wait for it."""
    while (count := write(data)) is None:
        import select

        select.select([], [stream], [])
    return int(count)


def prepare(*, own: bool) -> None:
    """Before anything is written. `own`: this process is ours alone, and its streams may be replaced."""
    _fill_gaps()
    if own:
        sys.stdout = _over(_Output(sys.stdout.fileno(), "w", closefd=False), sys.stdout)
        sys.stderr = _over(_Messages(sys.stderr.fileno(), "w", closefd=False), sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        _never_fail_on_a_character(stream)


def drop_output() -> None:
    """Python flushes stdout once more at exit; what is left in it goes nowhere."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fill_gaps() -> None:
    """Started with a closed stdin, stdout or stderr (`>&-`), Python has None there; and the next file that is opened, a
    database perhaps, would get the number that every child takes for its output. /dev/null takes the place: who closes
    it wants none.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            import os

            # os.open takes the lowest free number: the missing one
            number = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _over(raw: io.FileIO, stream: Any) -> TextIO:
    """The same stream over another file: its encoding, and what `python -u` asked for, stay."""
    file: Any = raw if stream.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        file,
        encoding=stream.encoding,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _never_fail_on_a_character(stream: object) -> None:
    """Cron's LANG can be one that cannot write a title; a log must not stop at that."""
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="backslashreplace")
