"""The files that a person names for a command to write: one rule for all commands.

`-` is stdout. A new file appears under its name when it is whole, and a file that exists is never replaced. What exists
and is no file - a named pipe, `>(gzip)`, a device - is written through and stays what it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dispatcher.cli.render import clean
from dispatcher.errors import BadInput

STDOUT = "-"


def is_stdout(file: Path) -> bool:
    return str(file) == STDOUT


@contextmanager
def opened(file: Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """To be written from front to back."""
    with _explained(file):
        place = _place(file)
        if place is None:
            with _through(file) as stream:
                yield stream
            return
        with _unfinished(file, place, mode) as path, path.open("wb") as stream:
            yield stream


@contextmanager
def filled(file: Path) -> Iterator[Path]:
    """For what has to write in a path of its own, such as a database: an empty file that is put in place when whole."""
    with _explained(file):
        place = _place(file)
        if place is not None:
            with _unfinished(file, place, 0o666) as path:
                yield path
            return
        with tempfile.TemporaryDirectory(prefix="dispatcher-") as folder:
            path = Path(folder, "whole")
            yield path
            with path.open("rb") as whole, _through(file) as stream:
                shutil.copyfileobj(whole, stream)


def _place(file: Path) -> Path | None:
    """Where a new file shall be, behind all links; None for what is written through."""
    if is_stdout(file):
        return None
    try:
        state = os.stat(file)
    except FileNotFoundError:
        place = Path(os.path.realpath(file))
        if not place.parent.is_dir():
            raise BadInput(
                f"{clean(str(file))} cannot be written: there is no folder {clean(str(place.parent))}",
                hint="make the folder first",
            ) from None
        return place
    if stat.S_ISREG(state.st_mode):
        raise _taken(file)
    if stat.S_ISDIR(state.st_mode):
        raise BadInput(f"{clean(str(file))} cannot be written: it is a folder", hint="name a file in it")
    return None


@contextmanager
def _through(file: Path) -> Iterator[IO[bytes]]:
    if is_stdout(file):
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_NOCTTY), "wb") as stream:
        yield stream


@contextmanager
def _unfinished(file: Path, place: Path, mode: int) -> Iterator[Path]:
    """An empty file beside its later place, whose name nobody else has; gone when it was not finished."""
    path = place.parent / f".dispatcher-{os.getpid()}-{secrets.token_hex(4)}.part"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield path
        try:
            os.link(path, place)  # unlike a rename it replaces nothing that came into being meanwhile
        except FileExistsError:
            raise _taken(file) from None
        except OSError:  # a file system without hard links
            if os.path.lexists(place):
                raise _taken(file) from None
            os.rename(path, place)
    finally:
        path.unlink(missing_ok=True)


def _taken(file: Path) -> BadInput:
    return BadInput(f"{clean(str(file))} exists already", hint="name another file, or remove it first; - is stdout")


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadInput(
            f"{clean(str(file))} cannot be written: {error.strerror or error}", hint="check the folder and its space"
        ) from None
