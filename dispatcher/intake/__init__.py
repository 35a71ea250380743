"""What was not run by us, or what we have lost, as tasks and attempts of the log.

`joblog` reads GNU parallel's, `sessions` the stores of opencode and claude (what was run by hand counts too), `rebuild`
makes a lost database anew. Everything read here was written by others: it is data, and what is damaged is skipped.
"""

from __future__ import annotations

from dispatcher.intake.runs import Counts, Run, store_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Counts", "Run", "joblog", "sessions", "store_runs"]


def joblog(lines: Iterable[str], file: str) -> Iterator[Run]:
    from dispatcher.intake import gnu_parallel

    return gnu_parallel.runs(lines, file)


def sessions(kind: str, where: Path | None, environ: Mapping[str, str]) -> Iterator[Run]:
    """The sessions of a CLI's own store; `where` None: the one of this account."""
    if kind == "opencode":
        from dispatcher.intake import opencode_store

        return opencode_store.runs(where or opencode_store.place(environ))
    from dispatcher.intake import claude_store

    return claude_store.runs(where or claude_store.place(environ))
