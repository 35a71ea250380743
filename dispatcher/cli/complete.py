"""What TAB offers: task numbers, candidates, statuses, holds. A completion that cannot be answered offers nothing.

Shells have evaluated what they are given. So a word with a character that means something to one is not offered, and in
a description such characters are replaced: titles are text that somebody else wrote.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, ParamSpec

    P = ParamSpec("P")

Pairs = list[tuple[str, str]]

_LONGEST = 80  # of a description
_SPECIAL = frozenset(" \t\n\"'`$\\()[]{}<>|&;*?!~#^=")
_TAME = str.maketrans("'\"`\\[](){}<>$;|&!", "’”’/()()()‹›S,¦+.")


def task_ids(incomplete: str) -> Pairs:
    return _quietly(lambda: _starting(incomplete, _tasks()))


def candidate_names(incomplete: str) -> Pairs:
    return _quietly(lambda: _starting(incomplete, _candidates()))


def hold_targets(incomplete: str) -> Pairs:
    return _quietly(lambda: _starting(incomplete, _targets()))


def hold_keys(incomplete: str) -> Pairs:
    return _quietly(lambda: _starting(incomplete, _holds()))


def statuses(incomplete: str) -> Pairs:
    from dispatcher.task import Status

    return _starting(incomplete, ((str(status), "") for status in Status))


def shells(incomplete: str) -> Pairs:
    return _starting(incomplete, iter((("bash", ""), ("zsh", ""), ("fish", ""))))


def _quietly(find: Callable[[], Pairs]) -> Pairs:
    """A shell that asks in the wrong folder gets no candidates, and no error across the person's prompt."""
    try:
        return find()
    except Exception:
        return []


def _starting(incomplete: str, offers: Iterator[tuple[str, str]]) -> Pairs:
    return [
        (word, _harmless(text))
        for word, text in offers
        if word.startswith(incomplete) and word.isprintable() and not _SPECIAL & set(word)
    ]


def _harmless(text: str) -> str:
    """One line that means nothing to a shell."""
    shown = text[:_LONGEST].translate(_TAME)
    return "".join(character if character.isprintable() else "?" for character in shown).strip()


def _tasks() -> Iterator[tuple[str, str]]:
    from dispatcher.cli import home
    from dispatcher.store import glance

    with home.existing(None, reading=True) as store:
        for row in glance.task_names(store):
            yield str(row["id"]), f"{row['status']}: {row['title']}"


def _candidates() -> Iterator[tuple[str, str]]:
    for name, said in _named("candidates").items():
        yield name, f"{said.get('harness')} {said.get('model')}"


def _targets() -> Iterator[tuple[str, str]]:
    yield from _candidates()
    for name in _named("credentials"):
        yield name, "credential"


def _named(section: str) -> dict[str, dict[str, object]]:
    """A mapping of models.yaml as it stands there."""
    import os

    from dispatcher.cli import home
    from dispatcher.config import outline

    said: Any = outline(home.find(None), os.environ)
    return {str(name): dict(values) for name, values in said[section].items()}


def _holds() -> Iterator[tuple[str, str]]:
    import time

    from dispatcher.cli import home
    from dispatcher.store import glance

    with home.existing(None, reading=True) as store:
        for hold in glance.status(store, time.time())["holds"]:
            yield hold["key"], hold["reason"]
