"""`log`: attempts, newest first. The keys of the rows are the stable columns of `--json` and `--csv`."""

from __future__ import annotations

from dispatcher.cli import home
from dispatcher.cli.render import Column, form, table
from dispatcher.cli.wording import clock, duration, money, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

COLUMNS = [
    Column("task", "task", right=True),
    Column("attempt", "try", right=True),
    Column("started_at", "started", clock, least=110),
    Column("seconds", "took", duration, right=True, least=90),
    Column("candidate", "candidate"),
    Column("prompt", "prompt", least=120),
    Column("outcome", "outcome"),
    Column("verdict", "then", least=100),
    Column("status", "task is"),
    Column("tokens", "tokens", tokens, right=True, least=130),
    Column("list_price_usd", "price", money, right=True, least=130),
    Column("title", "title", wide=True),
]


def show_log(
    explicit: Path | None,
    *,
    limit: int,
    task_id: int | None,
    candidate: str | None,
    status: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    if status is not None:
        _check(status)
    with home.existing(explicit) as store:
        from dispatcher.store import glance

        rows = glance.attempts(store, limit=limit, task=task_id, candidate=candidate, status=status)
    for row in rows:
        row["tokens"] = total_tokens(row)
    table(rows, COLUMNS, form=form(as_json=as_json, as_csv=as_csv), empty="no attempt yet; start with: dispatcher run")


def total_tokens(row: dict[str, Any]) -> int | None:
    """All tokens of an attempt; None when the CLI told none."""
    kinds = [row[f"{kind}_tokens"] for kind in ("input", "output", "cache_read", "cache_write")]
    return None if all(kind is None for kind in kinds) else sum(kind or 0 for kind in kinds)


def _check(status: str) -> None:
    from dispatcher.errors import BadInput
    from dispatcher.task import Status

    if status not in set(Status):
        raise BadInput(f"there is no status {status!r}", hint="one of " + ", ".join(Status))
