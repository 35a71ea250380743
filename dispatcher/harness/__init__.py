"""Translators between the dispatcher and the CLIs that drive models. Each one is imported when it is asked for."""

from __future__ import annotations

from dispatcher.errors import BadInput
from dispatcher.harness.base import Harness

_NAMES = ("opencode", "claude", "scripted")


def names() -> tuple[str, ...]:
    return _NAMES


def get(name: str, zone: str = "UTC") -> Harness:
    """The harness of that name. `scripted` is the built-in worker of the demo; it speaks opencode's event format.

    `zone` is that of this machine: a clock time in an error text without one is local.
    """
    if name == "claude":
        from dispatcher.harness.claude import Claude

        return Claude(zone)
    if name in ("opencode", "scripted"):
        from dispatcher.harness.opencode import Opencode

        return Opencode(name, zone)
    raise BadInput(f"there is no harness called {name!r}", hint="known: " + ", ".join(_NAMES))
