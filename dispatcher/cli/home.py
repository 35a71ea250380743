"""Opens a home for a command: which folder it is, its configuration, its store. Everything is imported when needed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

from dispatcher.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.task import Source


def find(explicit: Path | None, *, may_be_missing: bool = False) -> Path:
    """The home folder: --home, DISPATCHER_HOME, here if there is a models.yaml, else the user's.

    The user's own need not be there yet. One that was named must be, or a typing error would look like an empty queue;
    `may_be_missing` is for commands that make a home or have to do with one that is gone.
    """
    from dispatcher.config import find_home

    folder = find_home(explicit, os.environ, _here())
    if may_be_missing:
        return folder
    if (explicit is not None or os.environ.get("DISPATCHER_HOME")) and not folder.is_dir():
        named = "DISPATCHER_HOME" if explicit is None else "--home"
        raise BadInput(f"{named} names {folder}, which does not exist", hint="correct it, or make it: dispatcher init")
    if (file := folder / "models.yaml").exists() and not file.is_file():
        raise BadInput(f"{file} is not a regular file", hint="move it away, then: dispatcher init")
    return folder


def configured(explicit: Path | None) -> Config:
    """The configuration of the home; a clear error when there is none."""
    from dispatcher.config import load

    home = find(explicit)
    if not (home / "models.yaml").exists():
        raise BadInput(f"there is no models.yaml in {home}", hint="make one with: dispatcher init")
    return load(home)


def next_step(home: Path) -> str:
    """What to do in a home where nothing was queued yet."""
    return "dispatcher add BRIEF" if (home / "models.yaml").exists() else "it has no models.yaml: dispatcher init"


def has_store(home: Path) -> bool:
    """Whether something was ever queued there. Asking makes nothing, not even the folder.

    A journal or an attempt without its database counts: opening it then says what was lost, where "nothing queued"
    would be a lie.
    """
    logs = home / "logs"
    if any((logs / name).exists() for name in ("dispatcher.db", "dispatcher.db.journal.jsonl")):
        return True
    return any(logs.glob("[0-9]*/[0-9]*/attempt.json"))


@contextmanager
def opened(home: Path, *, reading: bool = False) -> Iterator[Store]:
    """The store of a home, made when it is not there yet. Who only reads may read one that cannot be written."""
    from dispatcher import store
    from dispatcher.config import database

    file = home / "logs" / "dispatcher.db"
    looking = reading and file.exists() and not store.can_write(str(file))
    with store.open(file, read_only=True) if looking else store.open(database(home)) as found:
        yield found


@contextmanager
def existing(explicit: Path | None, *, reading: bool = False) -> Iterator[Store]:
    """The store of a home in which something was queued before; looking around creates nothing."""
    home = find(explicit)
    if not has_store(home):
        raise BadInput(f"nothing was ever queued in {home}", hint=next_step(home))
    with opened(home, reading=reading) as found:
        yield found


def person() -> str:
    """The account that speaks, for the history."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def source() -> Source:
    """Who started this: cron gives a job neither a terminal nor TERM."""
    from dispatcher.task import Source

    return Source.TERMINAL if "TERM" in os.environ else Source.CRON


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise BadInput("the current folder no longer exists", hint="change to one that does") from None
