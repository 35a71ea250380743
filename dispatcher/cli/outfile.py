"""The files that a person names for a command to write: one rule for all commands.

`-` is stdout. A file appears under its name when it is whole. One that exists is never replaced, for it may be the only
copy of something; but a report, which can be made again, takes the place of an older one, also behind a link. What
exists and is no file - a named pipe, `>(gzip)`, a device - is written through and stays what it is.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dispatcher.cli.render import clean
from dispatcher.errors import BadInput

STDOUT = "-"


def is_stdout(file: Path) -> bool:
    return str(file) == STDOUT


@contextmanager
def opened(file: Path, *, mode: int = 0o666, replaces: bool = False) -> Iterator[IO[bytes]]:
    """To be written from front to back. `replaces`: a regular file that exists gives way, when the new one is whole."""
    with _explained(file):
        place = _place(file, replaces=replaces)
        if place is None:
            with _through(file) as stream:
                yield stream
            return
        put = _put_instead if replaces else _put_new
        with _unfinished(file, place, mode, put) as path, path.open("wb") as stream:
            yield stream


@contextmanager
def filled(file: Path) -> Iterator[Path]:
    """For what has to write in a path of its own, such as a database: an empty file that is put in place when whole."""
    with _explained(file):
        place = _place(file)
        if place is not None:
            with _unfinished(file, place, 0o666, _put_new) as path:
                yield path
            return
        with tempfile.TemporaryDirectory(prefix="dispatcher-") as folder:
            path = Path(folder, "whole")
            yield path
            with path.open("rb") as whole, _through(file) as stream:
                shutil.copyfileobj(whole, stream)


def _place(file: Path, *, replaces: bool = False) -> Path | None:
    """Where the file shall be, behind all links; None for what is written through."""
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
        if replaces:
            return Path(os.path.realpath(file))
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
def _unfinished(file: Path, place: Path, mode: int, put: Callable[[Path, Path, Path], None]) -> Iterator[Path]:
    """An empty file beside its later place, whose name nobody else has; gone when it was not finished."""
    path = place.parent / f".dispatcher-{os.getpid()}-{secrets.token_hex(4)}.part"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield path
        _sync(path)
        put(file, path, place)
    finally:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """After a power cut a name must not stand for an empty file."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _put_new(file: Path, path: Path, place: Path) -> None:
    try:
        os.link(path, place)  # unlike a rename it replaces nothing that came into being meanwhile
    except FileExistsError:
        raise _taken(file) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(place):
            raise _taken(file) from None
        os.rename(path, place)


def _put_instead(file: Path, path: Path, place: Path) -> None:
    """In place of an older file, with its owner and its rights: a web server may have to read it."""
    if os.path.lexists(place):
        older = os.lstat(place)
        if not stat.S_ISREG(older.st_mode):  # it was one when we began
            raise _taken(file)
        with suppress(OSError):  # a file of somebody else, in a folder that we may write
            os.chown(path, older.st_uid, older.st_gid)
        os.chmod(path, stat.S_IMODE(older.st_mode))
    os.replace(path, place)


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
