"""What `log` asks: attempts by any mix of filters, as plain rows in stable, documented columns.

A log of a million attempts answers in a millisecond because each filter walks an index in the order of the answer and
stops at the limit. Where a filter is about the task (status, repository, batch) and only few tasks fit, the walk starts
at these tasks instead.
"""

from __future__ import annotations

from dispatcher.errors import BadInput
from dispatcher.store.text import MAX_LINE, clean, match

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from dispatcher.store.database import Store

    Row = dict[str, Any]

# Column -> (where it comes from, what it means). Stable: a later version adds some, none changes its meaning.
COLUMNS: Mapping[str, tuple[str, str]] = {
    "task": ("a.task_id", "number of the task"),
    "attempt": ("a.number", "counts from 1 within the task"),
    "title": ("t.title", "title of the task"),
    "status": ("t.status", "where the task stands now"),
    "difficulty": ("t.difficulty", "trivial, easy, medium, hard"),
    "repository": ("t.repository", "absolute path of the repository"),
    "batch": ("t.batch", "tasks that were added together"),
    "started_at": ("a.started_at", "start, in epoch seconds"),
    "ended_at": ("a.ended_at", "end; empty while it runs"),
    "seconds": ("coalesce(a.seconds, a.ended_at - a.started_at)", "worker time"),
    "candidate": ("a.candidate", "entry of models.yaml"),
    "harness": ("a.harness", "the CLI"),
    "harness_version": ("a.harness_version", "its version"),
    "model": ("a.model", "the model id that was asked for"),
    "observed_model": ("a.observed_model", "the model that answered"),
    "model_evidence": ("a.model_evidence", "how that is known: confirmed, logged, unverified"),
    "credential": ("a.credential", "whose quota or money was spent"),
    "billing": ("a.billing", "free, subscription, credit, metered"),
    "prompt": ("a.prompt", "first, finish, continue, confirm, approved"),
    "outcome": ("a.outcome", "how it ended; empty while it runs"),
    "outcome_reason": ("a.outcome_reason", "the outcome in words"),
    "verdict": ("a.verdict", "what was decided"),
    "verdict_reason": ("a.verdict_reason", "why"),
    "exit_code": ("a.exit_code", "exit code of the worker"),
    "end_reason": ("a.end_reason", "why the supervisor ended it; exited when it ended by itself"),
    "tokens": (
        "CASE WHEN coalesce(a.tokens_input, a.tokens_output, a.tokens_cache_read, a.tokens_cache_write) IS NULL "
        "THEN NULL ELSE coalesce(a.tokens_input, 0) + coalesce(a.tokens_output, 0) "
        "+ coalesce(a.tokens_cache_read, 0) + coalesce(a.tokens_cache_write, 0) END",
        "all of the four kinds below; reasoning is part of the output",
    ),
    "input_tokens": ("a.tokens_input", "tokens as the CLI reports them"),
    "output_tokens": ("a.tokens_output", "tokens of the answer"),
    "cache_read_tokens": ("a.tokens_cache_read", "tokens read from the prompt cache"),
    "cache_write_tokens": ("a.tokens_cache_write", "tokens written to it"),
    "reasoning_tokens": ("a.tokens_reasoning", "tokens of reasoning"),
    "list_price_usd": ("a.cost_usd", "list price as the CLI computes it; empty: unknown"),
    "billed_usd": ("a.billed_usd", "what was really billed; empty: unknown"),
    "base_commit": ("a.base_commit", "commit of the copy at its start"),
    "result_commit": ("a.result_commit", "commit at its end"),
    "session_id": ("a.session_id", "the CLI's session"),
    "host": ("a.host", "machine it ran on"),
    "source": ("a.source", "terminal, cron, batch, import"),
    "folder": ("a.folder", "attempt folder: prompt, output, exit record"),
}

_OF_ATTEMPT = {
    "task": "a.task_id",
    "outcome": "a.outcome",
    "verdict": "a.verdict",
    "candidate": "a.candidate",
    "model": "a.model",
    "harness": "a.harness",
    "credential": "a.credential",
}
_OF_TASK = {"status": "t.status", "difficulty": "t.difficulty", "repository": "t.repository", "batch": "t.batch"}
_INDEXED = frozenset({*_OF_ATTEMPT, *_OF_TASK}) - {"task", "difficulty"}
FILTERS = (*_OF_ATTEMPT, *_OF_TASK)
FAILED = "failed"  # as an outcome: ended, and neither completed nor stopped

_FEW = 5000  # tasks: from these to their attempts is quicker than backwards through all attempts
PAGE = 5000  # rows that a listing without limit holds at once
_SECONDS = 30.0  # SQL that a person typed may take so long


class Query:
    """Filters: name -> the values that fit, any of them. `limit` 0: all. `sort`: a column, `~column`: descending."""

    __slots__ = ("columns", "filters", "limit", "since", "sort", "text", "until", "where")

    def __init__(
        self,
        filters: Mapping[str, Sequence[object]] | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        text: str | None = None,
        where: str | None = None,
        sort: str | None = None,
        limit: int = 20,
        columns: Sequence[str] = (),
    ) -> None:
        self.filters = {name: list(values) for name, values in (filters or {}).items() if values}
        self.since = since
        self.until = until
        self.text = text
        self.where = where
        self.sort = sort
        self.limit = limit
        self.columns = tuple(columns) or tuple(COLUMNS)


def find(store: Store, query: Query) -> list[Row]:
    """The rows that fit, newest first unless sorted."""
    return list(pages(store, query))


def pages(store: Store, query: Query) -> Iterator[Row]:
    """The same one by one; without a limit and in the usual order, only a page of them is held at once."""
    _check(query)
    if _words(query):
        yield from _found_by_words(store, query)
        return
    if query.limit or query.sort:
        yield from _rows(store, query)
        return
    after: tuple[float, int] | None = None
    while True:
        found = _rows(store, query, after=after, keyed=True)
        for row in found:
            after = (row.pop("_at"), row.pop("_id"))
            yield row
        if len(found) < PAGE:
            return


def _found_by_words(store: Store, query: Query) -> list[Row]:
    """Looks at the newest matches first, and at more of them only when the filters leave too few.

    A word that stands everywhere must not make SQLite collect a million rows.
    """
    depth = max(20, query.limit * (5 if query.filters or query.where else 1))
    words = match(_words(query))
    while True:
        found = _rows(store, query, depth=depth)
        if (query.limit and not query.sort and len(found) >= query.limit) or not _more(store, words, depth):
            return found
        depth *= 20


def _more(store: Store, words: str, depth: int) -> bool:
    """Whether an index holds more matches than were looked at."""
    sql = "SELECT count(*) AS number FROM (SELECT 1 FROM {0} WHERE {0} MATCH ? LIMIT ?)"
    return any(store.read(sql.format(index), (words, depth + 1))[0]["number"] > depth for index in _INDEXES)


def _check(query: Query) -> None:
    from difflib import get_close_matches

    for name in (*query.columns, *([query.sort.lstrip("~")] if query.sort else [])):
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, n=1)
            hint = f"did you mean {near[0]}?" if near else "one of " + ", ".join(COLUMNS)
            raise BadInput(f"there is no column {name!r}", hint=hint)


def _words(query: Query) -> str:
    return (query.text or "").strip()


def _rows(
    store: Store, query: Query, *, after: tuple[float, int] | None = None, keyed: bool = False, depth: int = 0
) -> list[Row]:
    conditions, values, join = _conditions(store, query, depth)
    if after is not None:
        conditions.append("(a.started_at, a.id) < (?, ?)")
        values += after
    columns = ", ".join(f"{COLUMNS[name][0]} AS {name}" for name in query.columns)
    columns += ", a.started_at AS _at, a.id AS _id" if keyed else ""
    limit = PAGE if keyed else query.limit or -1
    rest = f"{' AND '.join(conditions) or '1'} ORDER BY {_order(query)} LIMIT {int(limit)}"
    if query.where is None:
        return [
            dict(row)
            for row in store.read(
                f"SELECT {columns} FROM attempt a {join} task t ON t.id = a.task_id WHERE {rest}", values
            )
        ]
    # Names in a condition that a person typed are the columns of the view, and nothing else is in sight.
    typed = f"({query.where}\n)"
    sql = f"SELECT {_of_view(columns)} FROM v_attempts v WHERE {typed} AND {_of_view(rest)}"
    return _guarded(store, sql, values, alone=f"SELECT 1 FROM v_attempts v WHERE {query.where}\nLIMIT 0")


def _of_view(sql: str) -> str:
    """The same columns under the names that they have in v_attempts."""
    import re

    return re.sub(r"\b[at]\.", "v.", sql.replace("t.status", "v.task_status"))


def _conditions(store: Store, query: Query, depth: int) -> tuple[list[str], list[object], str]:
    """Conditions, their values, and how the tasks are joined: CROSS keeps SQLite on the newest attempts."""
    conditions, values, join = list[str](), list[object](), "JOIN" if depth else "CROSS JOIN"
    for name, wanted in query.filters.items():
        plain = [one if isinstance(one, int) else clean(str(one), MAX_LINE) for one in wanted]
        parts = ["a.outcome NOT IN ('completed', 'stopped')"] if name == "outcome" and FAILED in plain else []
        plain = [one for one in plain if not (name == "outcome" and one == FAILED)]
        few = name in _INDEXED and bool(plain) and _few(store, name, plain)
        if few and name in _OF_TASK:
            join = "JOIN"
        if plain:
            # SQLite would collect and sort all that fits one of several values. That is right for few rows; for many,
            # `+` keeps it on the index of the order.
            column = _OF_ATTEMPT.get(name) or _OF_TASK[name]
            parts.append(f"{'' if few or len(plain) == 1 else '+'}{column} IN ({', '.join('?' * len(plain))})")
            values += plain
        conditions.append(parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})")
    for test, moment in (("a.started_at >= ?", query.since), ("a.started_at < ?", query.until)):
        if moment is not None:
            conditions.append(test)
            values.append(moment)
    if depth:
        conditions.append(f"a.id IN ({_FOUND.format(depth=depth)})")
        values += [match(_words(query))] * 2
    return conditions, values, join


def _few(store: Store, name: str, wanted: Sequence[object]) -> bool:
    """Whether at most a few thousand rows have one of these values; counted on the index, and no further."""
    table = "task" if name in _OF_TASK else "attempt"
    marks = ", ".join("?" * len(wanted))
    sql = f"SELECT count(*) AS number FROM (SELECT 1 FROM {table} WHERE {name} IN ({marks}) LIMIT {_FEW + 1})"
    return bool(store.read(sql, wanted)[0]["number"] <= _FEW)


_INDEXES = ("task_search", "attempt_search")
_FOUND = (
    "SELECT id FROM (SELECT hit.id FROM (SELECT rowid FROM task_search WHERE task_search MATCH ? "
    "ORDER BY rowid DESC LIMIT {depth}) s CROSS JOIN attempt hit ON hit.task_id = s.rowid) "
    "UNION SELECT id FROM (SELECT rowid AS id FROM attempt_search WHERE attempt_search MATCH ? "
    "ORDER BY rowid DESC LIMIT {depth})"
)


def _order(query: Query) -> str:
    if query.sort is None:
        return "a.started_at DESC, a.id DESC"
    name, way = query.sort.lstrip("~"), "DESC" if query.sort.startswith("~") else "ASC"
    return f"{COLUMNS[name][0]} {way} NULLS LAST, a.id DESC"


def _guarded(store: Store, sql: str, values: Sequence[object], *, alone: str) -> list[Row]:
    """SQL with a condition that a person typed: it may only read, and not for ever.

    It must also make sense `alone`, without the brackets around it: `1) OR (1` is no condition.
    """
    import sqlite3
    import time

    connection = store.connection
    end = time.monotonic() + _SECONDS
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}

    def judge(action: int, name: str | None, *_: object) -> int:
        asks = action == sqlite3.SQLITE_PRAGMA and name == "data_version"  # a text search does, each time
        return sqlite3.SQLITE_OK if action in allowed or asks else sqlite3.SQLITE_DENY

    for index in _INDEXES:  # to open one takes more than a typed condition may do
        store.read(f"SELECT 1 FROM {index} LIMIT 0")
    with store.lock:
        connection.set_authorizer(judge)
        connection.set_progress_handler(lambda: time.monotonic() > end, 100_000)
        try:
            connection.execute(alone).fetchall()
            return [dict(row) for row in connection.execute(sql, values).fetchall()]
        except (sqlite3.Error, sqlite3.Warning) as error:
            said = "it takes too long" if "interrupted" in str(error) else str(error)
            raise BadInput(
                f"--where cannot be used: {said}", hint="it is SQL on the view v_attempts, such as: seconds > 600"
            ) from None
        finally:
            connection.set_progress_handler(None, 0)
            connection.set_authorizer(None)
