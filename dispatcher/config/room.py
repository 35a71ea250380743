"""What must be left on the host before a worker starts, and where workers write: the part of models.yaml for `status`.

`status` may not pay for reading the whole configuration, so `load` remembers this part in the user's state folder. It
counts while models.yaml says, word for word, what it said then; else everything is read again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dispatcher import __version__
from dispatcher.config import homes, regular
from dispatcher.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dispatcher.config.model import Config

_LIMITS = ("max_load_per_core", "min_free_memory", "min_free_disk")


class Room:
    """No dataclass: their library alone costs a third of `status`. Limits as in `Limits`."""

    __slots__ = ("copies_root", *_LIMITS)

    def __init__(self, max_load_per_core: float, min_free_memory: int, min_free_disk: int, *, copies_root: str) -> None:
        self.max_load_per_core = max_load_per_core
        self.min_free_memory = min_free_memory
        self.min_free_disk = min_free_disk
        self.copies_root = copies_root

    def paths(self, home: Path) -> tuple[str, ...]:
        """Where workers write."""
        return (str(home / "logs"), self.copies_root)


def of(home: Path, environ: Mapping[str, str]) -> Room:
    """Raises what `load` raises for a configuration that is wrong."""
    with suppress(OSError, UnicodeDecodeError):
        found = _remembered(home, regular.read(home / homes.FILE_NAME).decode("utf-8"), environ)
        if found is not None:
            return Room(**found)
    from dispatcher.config.loader import load

    return Room(**_part(load(home, environ)))


def remember(config: Config, text: str, environ: Mapping[str, str]) -> None:
    """Best effort: without it `status` is only slower."""
    part = _part(config)
    if _remembered(config.home, text, environ) != part:
        with suppress(OSError, BadInput):  # BadInput: no HOME, so nowhere to remember it
            homes.write_own(_record(config.home, environ), {"program": __version__, "text": text, "room": part})


def _part(config: Config) -> dict[str, Any]:
    return {**{name: getattr(config.limits, name) for name in _LIMITS}, "copies_root": str(config.copies_root)}


def _remembered(home: Path, text: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """None when it was another text, another program, or somebody else's file."""
    try:
        known = homes.read_own(_record(home, environ))
    except BadInput:
        return None
    if not isinstance(known, dict) or known.get("text") != text or known.get("program") != __version__:
        return None
    room = known.get("room")
    if not isinstance(room, dict) or set(room) != {*_LIMITS, "copies_root"}:
        return None
    whole = isinstance(room["copies_root"], str) and all(isinstance(room[name], int | float) for name in _LIMITS)
    return room if whole else None


def _record(home: Path, environ: Mapping[str, str]) -> Path:
    return homes.record_path(home, environ, "room")
