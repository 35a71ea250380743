"""Which changed paths a list of patterns allows. The patterns are those of .gitignore, read as "may change"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dispatcher.errors import Refused


def outside(paths: Iterable[str], patterns: Sequence[str]) -> tuple[str, ...]:
    """The paths that no pattern allows; no patterns allow everything.

    As in .gitignore: `*.md` fits in every folder, `docs/*.md` only in `docs`, `docs/**` and `docs/` all below it, `/x`
    only at the top, and a later `!pattern` takes something back. Refused for a pattern that means nothing.
    """
    if not patterns:
        return ()
    from pathspec import PathSpec

    try:
        allowed = PathSpec.from_lines("gitignore", patterns)
    except ValueError as error:
        raise Refused(f"`touch` holds a pattern that means nothing: {error}") from error
    return tuple(path for path in paths if not allowed.match_file(path))
