"""Keeps out of a supervisor what only its imports ask for: there is one for each worker, and memory counts.

`dataclasses` imports `inspect` for the docstring of classes that have none. With what it brings (`ast`, `dis`,
`tokenize`) it takes 1.4 of the 4.6 MB that the translators cost.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Later(type(sys)):  # type: ignore[misc]  # the class of modules, without importing `types`
    """A module that is loaded when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks at a module that it finds
            raise AttributeError(name)
        if sys.modules.get("inspect") is self:
            del sys.modules["inspect"]
        import inspect

        return getattr(inspect, name)


def put_off_inspect() -> None:
    """Before `dataclasses` is imported."""
    sys.modules.setdefault("inspect", _Later("inspect"))
