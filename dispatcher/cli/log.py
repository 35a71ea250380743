"""`log`: attempts by any mix of filters, newest first. The keys of the rows are stable and documented columns."""

from __future__ import annotations

import time

from dispatcher.cli import home
from dispatcher.cli.render import Column, csv_out, form, jsonl_out, one_form, table
from dispatcher.cli.wording import clock, duration, money, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from dispatcher.store.lookup import Query

USUAL = (
    Column("task", "task", right=True),
    Column("attempt", "try", right=True),
    Column("started_at", "started", clock, least=90),
    Column("seconds", "took", duration, right=True, least=100),
    Column("candidate", "candidate"),
    Column("prompt", "prompt", least=120),
    Column("outcome", "outcome"),
    Column("verdict", "verdict", least=110),
    Column("status", "task is"),
    Column("tokens", "tokens", tokens, right=True, least=150),
    Column("list_price_usd", "price", money, right=True, least=140),
    Column("title", "title", wide=True),
)
_SHOW: dict[str, Callable[[Any], str]] = {"ended_at": clock} | {
    f"{kind}_tokens": tokens for kind in ("input", "output", "cache_read", "cache_write", "reasoning")
}


def show_log(
    explicit: Path | None,
    *,
    limit: int,
    task_id: int | None,
    status: str | None,
    outcome: str | None,
    verdict: str | None,
    difficulty: str | None,
    candidate: str | None,
    model: str | None,
    harness: str | None,
    credential: str | None,
    repository: str | None,
    batch: str | None,
    since: str | None,
    until: str | None,
    text: str | None,
    where: str | None,
    sort: str | None,
    columns: str | None,
    as_json: bool,
    as_jsonl: bool,
    as_csv: bool,
) -> None:
    from dispatcher.store import lookup

    one_form(as_json, as_jsonl, as_csv)
    filters = {
        "status": status,
        "outcome": outcome,
        "verdict": verdict,
        "difficulty": difficulty,
        "candidate": candidate,
        "model": model,
        "harness": harness,
        "credential": credential,
        "repository": repository,
        "batch": batch,
    }
    query = lookup.Query(
        {**({} if task_id is None else {"task": [task_id]}), **_filters(filters)},
        since=moment("since", since),
        until=moment("until", until),
        text=text,
        where=where,
        sort=sort,
        limit=limit,
        columns=_names(columns, all_of_them=as_json or as_jsonl or as_csv),
    )
    with home.existing(explicit, reading=True) as store:
        if as_jsonl:
            return jsonl_out(lookup.pages(store, query))
        shown = [_column(name) for name in query.columns]
        if as_csv:
            return csv_out(lookup.pages(store, query), shown)
        rows = lookup.find(store, query)
    return table(rows, shown, form=form(as_json=as_json), empty=_nothing(query))


def _nothing(query: Query) -> str:
    narrow = query.filters or query.text or query.where or query.since or query.until
    return "no attempt fits these filters" if narrow else "no attempt yet; start with: dispatcher run"


def _names(columns: str | None, *, all_of_them: bool) -> tuple[str, ...]:
    if columns is not None:
        return tuple(name for name in columns.replace(",", " ").split())
    return () if all_of_them else tuple(column.key for column in USUAL)


def _column(name: str) -> Column:
    for column in USUAL:
        if column.key == name:
            return column
    wide = name.endswith("_reason") or name == "repository"
    return Column(name, name.replace("_", " "), _SHOW.get(name, str), right=name in _SHOW, wide=wide)


def moment(name: str, words: str | None) -> float | None:
    if words is None:
        return None
    from dispatcher.cli import when

    return when.since(words, time.time()) if name == "since" else when.until(words, time.time())


def _filters(given: dict[str, str | None]) -> dict[str, list[object]]:
    """`--status queued,waiting`: any of them. Words of a closed list are checked, a repository's path is made whole."""
    found = dict[str, list[object]]()
    for name, text in given.items():
        if text is None:
            continue
        if name in ("repository", "batch"):
            found[name] = [repository_path(text) if name == "repository" else text]
            continue
        values = [part.strip() for part in text.split(",") if part.strip()]
        for value in values:
            _check(name, value)
        found[name] = list[object](values)
    return found


def _check(name: str, value: str) -> None:
    if name not in ("status", "difficulty", "outcome"):
        return
    from dispatcher import task
    from dispatcher.errors import BadInput

    known = {
        "status": [str(one) for one in task.Status],
        "difficulty": [str(one) for one in task.Difficulty],
        "outcome": [*(str(one) for one in task.OutcomeClass), "failed"],
    }[name]
    if value not in known:
        from difflib import get_close_matches

        near = get_close_matches(value, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "one of " + ", ".join(known)
        raise BadInput(f"there is no {name} {value!r}", hint=hint)


def repository_path(text: str) -> str:
    """As it stands in the log: absolute, without links. A repository that is gone can still be asked for."""
    import os

    return os.path.realpath(os.path.expanduser(text))
