"""Words on a command line that would do nothing are refused: whoever wrote them expects something of them.

`--dry-run` is no reason to refuse: it is put behind the line that it tries.
"""

from __future__ import annotations

from dispatcher.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def refuse(where: str, words: Mapping[str, bool], hint: str) -> None:
    """Raise BadInput for the first of `words` that was written. `where` says beside what they do nothing."""
    for word, written in words.items():
        if written:
            raise BadInput(f"{word} does nothing {where}", hint=hint)
