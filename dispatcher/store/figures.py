"""The sums that a report is made of, as plain rows: counts and measures of attempts, and how many tasks stand where.

Whole months come from sums that are kept (the rollup and its parts), the rest of the period from the rows themselves; a
mix of filters of which no sums are kept reads rows only. All have the same columns, and a test proves that they agree.
"""

from __future__ import annotations

import time

from dispatcher.errors import BadInput
from dispatcher.store.rollup import reviewed
from dispatcher.store.text import MAX_LINE, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dispatcher.store.database import Store

    Row = dict[str, Any]
    Span = tuple[float | None, float | None]  # since, until; None: open

KEYS = ("candidate", "harness", "model", "credential", "billing", "difficulty", "outcome")
MEASURES = (
    "attempts",
    "tasks",
    "counted",
    "delivered",
    "saved",
    "false_done",
    "nearly_lost",
    "accepted",
    "rejected",
    "seconds",
    "cost_usd",
    "priced",
    "billed_usd",
    "billed",
    "tokens_input",
    "tokens_output",
    "tokens_cache_read",
    "tokens_cache_write",
    "tokens_reasoning",
)
_REALS, _NOTHING = ("seconds", "cost_usd", "billed_usd"), 1e-7
IN_TIME = ("attempts", "delivered", "seconds", "cost_usd", "priced")  # what a table over time shows
FILTERS = (*KEYS[:-1], "repository", "batch", "source")
_ONLY_ROWS = frozenset({"repository", "batch", "source"})
PERIODS: Mapping[str, str] = {
    "day": "strftime('%Y-%m-%d', started_at, 'unixepoch')",
    "week": "strftime('%Y-%m-%d', started_at, 'unixepoch', 'weekday 0', '-6 days')",  # its Monday
    "month": "month",
}
_PERIODS_OF_PARTS: Mapping[str, str] = {  # where `name` is a day
    "day": "name",
    "week": "strftime('%Y-%m-%d', name, 'weekday 0', '-6 days')",
    "month": "month",
}


def attempts(store: Store, span: Span = (None, None), filters: Mapping[str, str] | None = None) -> list[Row]:
    """Measures of the attempts that began in the span, by KEYS."""
    given = dict(filters or {})
    part = "all" if span == (None, None) and not set(given) & _ONLY_ROWS else _part_of(given)
    return _sums(store, ", ".join(KEYS), KEYS, span, given, part=part)


def over_time(store: Store, unit: str, span: Span, filters: Mapping[str, str] | None = None) -> list[Row]:
    """The measures IN_TIME by outcome and `period` (a day, a week's Monday, a month; UTC)."""
    if unit not in PERIODS:
        raise BadInput(f"there is no period {unit!r}", hint="one of " + ", ".join(PERIODS))
    given, keys = dict(filters or {}), ("period", "outcome")
    select, rolled = f"{PERIODS[unit]} AS period, outcome", f"{_PERIODS_OF_PARTS[unit]} AS period, outcome"
    if not given:
        part: str | None = "month" if unit == "month" else "day"
    else:
        part = _part_of(given) if unit == "month" else None
    return _sums(store, select, keys, span, given, part=part, rolled=rolled, measures=IN_TIME)


def grouped(store: Store, name: str, span: Span, filters: Mapping[str, str] | None = None) -> list[Row]:
    """Measures by repository, batch or source, and outcome; the key is `name`."""
    given = dict(filters or {})
    part: str | None = name
    if given:
        part = "in" if name == "repository" and not set(given) & {"batch", "source"} else None
    select = f"coalesce({name}, '') AS name, outcome"
    return _sums(store, select, ("name", "outcome"), span, given, part=part, rolled="name, outcome")


def tasks(store: Store, span: Span = (None, None), filters: Mapping[str, str] | None = None) -> list[Row]:
    """How many tasks that were added in the span stand where: rows of difficulty, status, number.

    With a filter on what only attempts have (candidate, model, ...) there is no answer: an empty list.
    """
    given = dict(filters or {})
    if set(given) - {"difficulty", "repository", "batch", "source"}:
        return []
    found: dict[tuple[str, str], int] = {}
    for source, sign, part in _parts(span, rolled=not set(given) & _ONLY_ROWS):
        number = "count(*)" if source == "rows" else "sum(number)"
        table, column = ("task_rollup", "month") if source == "rollup" else ("task", "created_at")
        where, values = _where(column, part, given)
        where += f" AND NOT {reviewed('task')}" if source == "rows" else ""
        sql = f"SELECT difficulty, status, {number} AS number FROM {table} WHERE {where} GROUP BY difficulty, status"
        for row in store.read(sql, values):
            key = (row["difficulty"], row["status"])
            found[key] = found.get(key, 0) + sign * row["number"]
    return [{"difficulty": key[0], "status": key[1], "number": number} for key, number in found.items() if number]


def newest_tasks(
    store: Store, limit: int, span: Span = (None, None), filters: Mapping[str, str] | None = None
) -> list[Row]:
    """The newest tasks with what they used, for a list: newest first."""
    given = dict(filters or {})
    of_attempt = {name: value for name, value in given.items() if name in KEYS and name != "difficulty"}
    of_task = {name: value for name, value in given.items() if name not in of_attempt}
    where, values = _where("t.created_at", span, {f"t.{name}": value for name, value in of_task.items()})
    for name, value in of_attempt.items():
        where += f" AND EXISTS (SELECT 1 FROM attempt a WHERE a.task_id = t.id AND a.{name} = ?)"
        values.append(clean(value, MAX_LINE))
    return [dict(row) for row in store.read(_TASKS.format(where=where), (*values, limit))]


_TASKS = """
SELECT t.id, t.title, t.status, t.difficulty, t.created_at,
    (SELECT count(*) FROM attempt a WHERE a.task_id = t.id) AS attempts,
    (SELECT sum(a.seconds) FROM attempt a WHERE a.task_id = t.id) AS seconds,
    (SELECT sum(a.cost_usd) FROM attempt a WHERE a.task_id = t.id) AS cost_usd,
    (SELECT a.model FROM attempt a WHERE a.task_id = t.id ORDER BY a.number DESC LIMIT 1) AS model,
    (SELECT a.outcome FROM attempt a WHERE a.task_id = t.id ORDER BY a.number DESC LIMIT 1) AS outcome
FROM task t WHERE {where} ORDER BY t.created_at DESC, t.id DESC LIMIT ?
"""


# --- where the sums come from --------------------------------------------------------------------------------------


def _part_of(filters: Mapping[str, str]) -> str | None:
    """Which sums by month and KEYS know these filters: those of all (""), of one repository, or none (None)."""
    narrow = set(filters) & _ONLY_ROWS
    return "" if not narrow else "in" if narrow == {"repository"} else None


def _sums(
    store: Store,
    select: str,
    keys: Sequence[str],
    span: Span,
    filters: Mapping[str, str],
    *,
    part: str | None = "",
    rolled: str = "",
    measures: Sequence[str] = MEASURES,
) -> list[Row]:
    """`part`: of `rollup_part`; "": the rollup itself; None: rows only. `rolled`: what is selected from such sums."""
    found: dict[tuple[Any, ...], Row] = {}
    sums = ", ".join(f"sum({name}) AS {name}" for name in measures)
    ends = _parts(span, rolled=part is not None)
    for source, sign, bounds in ends:
        if source == "rows":
            what, table = select, "v_measures"
            where, values = _where("started_at", bounds, filters, of_attempts=True)
        else:
            what, table = rolled or select, "rollup_part" if part else "rollup"
            known = {"name" if name == "repository" else name: value for name, value in filters.items()}
            where, values = _where("month", bounds, {"part": part, **known} if part else filters)
        for row in store.read(f"SELECT {what}, {sums} FROM {table} WHERE {where} GROUP BY {_group(keys)}", values):
            signed = {**dict(row), **{name: sign * row[name] for name in measures}}
            _add(found, tuple(row[name] for name in keys), signed, measures)
    for kept in found.values():  # what a difference of sums leaves of a nothing
        kept.update((name, 0.0) for name in _REALS if name in kept and abs(kept[name]) < _NOTHING)
    return [kept for kept in found.values() if kept["attempts"]]


def _group(keys: Sequence[str]) -> str:
    return ", ".join(str(place + 1) for place in range(len(keys)))


def _add(found: dict[tuple[Any, ...], Row], key: tuple[Any, ...], row: Row, measures: Sequence[str]) -> None:
    known = found.setdefault(key, row)
    if known is not row:
        for name in measures:
            known[name] += row[name]


def _where(
    column: str, part: tuple[Any, Any], filters: Mapping[str, str], *, of_attempts: bool = False
) -> tuple[str, list[object]]:
    conditions, values = ["1"], list[object]()
    for test, value in ((">=", part[0]), ("<", part[1])):
        if value is not None:
            conditions.append(f"{column} {test} ?")
            values.append(value)
    for name, value in filters.items():
        if name.removeprefix("t.") not in (*FILTERS, "part", "name"):
            raise BadInput(f"a report has no filter {name!r}", hint="one of " + ", ".join(FILTERS))
        if of_attempts and name in ("repository", "batch"):  # from the tasks to their attempts, by the indexes of both
            conditions.append(f"task_id IN (SELECT id FROM task WHERE {name} = ?)")
        else:
            conditions.append(f"{name} = ?")
        values.append(clean(value, MAX_LINE))
    return " AND ".join(conditions), values


def _parts(span: Span, *, rolled: bool) -> list[tuple[str, int, tuple[Any, Any]]]:
    """(source, sign, bounds): the whole months of a span from sums, its ends from rows.

    Of a month that is in the span by more than half, the rest is taken away: it has fewer rows.
    """
    since, until = span
    if not rolled:
        return [("rows", 1, span)]
    first = None if since is None else _month_from(since)
    last = None if until is None else _month(until)  # the month in which it ends is not whole
    if first is not None and last is not None and first >= last:
        return [("rows", 1, span)]
    ends: list[tuple[str, int, tuple[Any, Any]]] = []
    if since is not None and first is not None and _start(first) > since:
        month = _month(since)
        if since - _start(month) < _start(first) - since:
            ends.append(("rows", -1, (_start(month), since)))
            first = month
        else:
            ends.append(("rows", 1, (since, _start(first))))
    if until is not None and last is not None and _start(last) < until:
        after = _month_from(until)
        if _start(after) - until < until - _start(last):
            ends.append(("rows", -1, (until, _start(after))))
            last = after
        else:
            ends.append(("rows", 1, (_start(last), until)))
    return [("rollup", 1, (first, last)), *ends]


def _month(moment: float) -> str:
    return time.strftime("%Y-%m", time.gmtime(moment))


def _month_from(moment: float) -> str:
    """The first month that lies whole after a moment."""
    month = _month(moment)
    if _start(month) == moment:
        return month
    year, number = int(month[:4]), int(month[5:])
    return f"{year + number // 12:04d}-{number % 12 + 1:02d}"


def _start(month: str) -> float:
    import calendar

    return float(calendar.timegm((int(month[:4]), int(month[5:]), 1, 0, 0, 0)))
