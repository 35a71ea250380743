"""What a report says: tables of counts made from sums of attempts. No rendering in here.

A row of sums has the keys candidate, harness, model, credential, billing, difficulty, outcome, and measures: attempts,
tasks (the first attempt of a task on its candidate), delivered (tasks brought to review), saved (by a finish, continue
or confirm prompt), false_done (the worker said done, git or the checks said otherwise), nearly_lost (it failed, and
work that it left was kept), accepted and rejected (tasks whose result came from it), seconds, cost_usd over `priced`
and billed_usd over `billed` attempts, tokens by kind. Unknown stays None and is never 0.
"""

from __future__ import annotations

from dispatcher import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal

    Kind = Literal["text", "count", "minutes", "usd", "tokens"]
    Row = Mapping[str, Any]

GROUPS = ("candidate", "model", "harness", "credential", "billing", "difficulty", "repository", "batch", "source")
QUOTA = frozenset({"rate_limited", "quota_exhausted"})
STOPPED = "stopped"  # by a person or by the end of a run: nobody's failure
DELIVERED = ("needs_review", "accepted", "rejected")
NOT_DELIVERED = ("needs_human", "failed", "cancelled", "expired")
_TOKENS = ("tokens_input", "tokens_output", "tokens_cache_read", "tokens_cache_write", "tokens_reasoning")
_LEVELS = ("trivial", "easy", "medium", "hard")


class Column:
    __slots__ = ("key", "kind", "title")

    def __init__(self, key: str, title: str, kind: Kind = "count") -> None:
        self.key = key
        self.title = title
        self.kind = kind


class Table:
    """`name` is its stable name in JSON and for `--table`."""

    __slots__ = ("columns", "name", "note", "rows", "title")

    def __init__(
        self, name: str, title: str, columns: tuple[Column, ...], rows: tuple[Row, ...], note: str = ""
    ) -> None:
        self.name = name
        self.title = title
        self.columns = columns
        self.rows = rows
        self.note = note


class Report:
    """`unit`: the steps of the table over time. `tasks`: the newest ones, for the list of the page; `left_out`: others.

    Plain classes, here and above: a report is asked for all day long, and dataclasses alone cost as much as its sums.
    """

    __slots__ = ("by", "filters", "left_out", "made_at", "names", "since", "tables", "tasks", "unit", "until")

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        made_at: float,
        since: float | None,
        until: float | None,
        filters: Mapping[str, str],
        by: str,
        unit: str,
        tasks: Sequence[Row] = (),
        left_out: int = 0,
    ) -> None:
        self.tables = tuple(tables)
        self.names = {table.name: table for table in tables}
        self.made_at = made_at
        self.since = since
        self.until = until
        self.filters = filters
        self.by = by
        self.unit = unit
        self.tasks = tuple(tasks)
        self.left_out = left_out


def build(
    sums: Sequence[Row],
    over_time: Sequence[Row],
    tasks: Sequence[Row],
    *,
    made_at: float,
    by: str = "candidate",
    unit: str = "month",
    since: float | None = None,
    until: float | None = None,
    filters: Mapping[str, str] | None = None,
    groups: Sequence[Row] | None = None,
    newest: Sequence[Row] = (),
) -> Report:
    """The report. `groups`: sums by `name` and outcome, where `by` is no key of `sums`."""
    named = [{**row, "name": row[by]} for row in sums] if groups is None else list(groups)
    tables = (
        _summary(sums, tasks),
        _main(named, by),
        _outcomes(named, by),
        _credentials(sums),
        _accepted(sums),
        _tasks(tasks),
        _over_time(over_time, unit),
    )
    total = sum(row["number"] for row in tasks)
    return Report(
        tables,
        made_at=made_at,
        since=since,
        until=until,
        filters=filters or {},
        by=by,
        unit=unit,
        tasks=newest,
        left_out=max(0, total - len(newest)) if newest else 0,
    )


# --- adding up -----------------------------------------------------------------------------------------------------


def _total(rows: Iterable[Row], measure: str) -> Any:
    return sum(row[measure] for row in rows)


def _groups(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _of(rows: Sequence[Row], *outcomes: str) -> int:
    return int(sum(row["attempts"] for row in rows if row["outcome"] in outcomes))


def _nearly_lost(rows: Sequence[Row]) -> int:
    """Who was stopped goes on with its work: nothing of it was in danger."""
    return int(sum(row["nearly_lost"] for row in rows if row["outcome"] != STOPPED))


def _minutes(rows: Sequence[Row]) -> float:
    return round(float(_total(rows, "seconds")) / 60, 2)


def _usd(rows: Sequence[Row]) -> float | None:
    """The list price of the attempts that have one; None when none has."""
    return round(_total(rows, "cost_usd"), 6) if _total(rows, "priced") else None


def _billed(rows: Sequence[Row]) -> float | None:
    return round(_total(rows, "billed_usd"), 6) if _total(rows, "billed") else None


def _most(groups: Mapping[Any, list[Row]]) -> list[tuple[Any, list[Row]]]:
    return sorted(groups.items(), key=lambda item: (-_total(item[1], "attempts"), str(item[0])))


# --- the tables ----------------------------------------------------------------------------------------------------


def _summary(sums: Sequence[Row], tasks: Sequence[Row]) -> Table:
    def standing(names: Sequence[str]) -> int:
        return int(sum(row["number"] for row in tasks if row["status"] in names))

    total = sum(row["number"] for row in tasks)
    delivered, lost = standing(DELIVERED), standing(NOT_DELIVERED)
    of_tasks = [
        ("tasks", "Tasks", total, "added in the period"),
        ("delivered", "Delivered", delivered, f"of {total:,}: a result to review, accepted or rejected"),
        ("accepted", "Accepted", standing(("accepted",)), f"of {delivered:,} delivered"),
        ("not_delivered", "Not delivered", lost, f"of {total:,}: needs a person, failed, cancelled or expired"),
        ("open", "Still open", total - delivered - lost, f"of {total:,}"),
    ]
    attempts, priced = _total(sums, "attempts"), _total(sums, "priced")
    of_attempts = [
        ("attempts", "Attempts", attempts, "worker processes that ended"),
        ("quota_events", "Quota events", _of(sums, *QUOTA), f"of {attempts:,}: rate limits and used-up allowances"),
        ("saved", "Saved by a finish prompt", _total(sums, "saved"), "tasks that a second prompt brought to review"),
        (
            "false_done",
            "False done caught",
            _total(sums, "false_done"),
            "said done; git or the checks said otherwise",
        ),
        ("nearly_lost", "Work nearly lost", _nearly_lost(sums), "failed attempts whose work was kept"),
        ("minutes", "Minutes of work", _minutes(sums), "waiting does not count"),
        ("list_price_usd", "List price in USD", _usd(sums), f"known for {words.of(priced, attempts, 'attempt')}"),
        (
            "billed_usd",
            "Billed in USD",
            _billed(sums),
            f"known for {words.of(_total(sums, 'billed'), attempts, 'attempt')}",
        ),
    ]
    rows = tuple(
        {"key": key, "what": what, "number": number, "note": note}
        for key, what, number, note in ([*of_tasks, *of_attempts] if tasks else of_attempts)
    )
    columns = (Column("what", "what", "text"), Column("number", "number"), Column("note", "", "text"))
    return Table("summary", "Summary", columns, rows)


def _main(named: Sequence[Row], by: str) -> Table:
    rows = tuple(
        {
            "name": name or "none",
            "tasks": (worked := _total(group, "tasks")),
            "delivered": (delivered := _total(group, "delivered")),
            "not_delivered": max(0, worked - delivered),
            "accepted": _total(group, "accepted"),
            "rejected": _total(group, "rejected"),
            "attempts": (attempts := _total(group, "attempts")),
            "completed": (completed := _of(group, "completed")),
            "quota_events": (quota := _of(group, *QUOTA)),
            "failed": attempts - completed - quota - _of(group, STOPPED),
            "saved": _total(group, "saved"),
            "false_done": _total(group, "false_done"),
            "nearly_lost": _nearly_lost(group),
            "minutes": _minutes(group),
            "list_price_usd": _usd(group),
        }
        for name, group in _most(_groups(named, lambda row: row["name"]))
    )
    columns = (
        Column("name", by, "text"),
        Column("tasks", "tasks"),
        Column("delivered", "delivered"),
        Column("not_delivered", "not delivered"),
        Column("accepted", "accepted"),
        Column("rejected", "rejected"),
        Column("attempts", "attempts"),
        Column("completed", "completed"),
        Column("quota_events", "quota"),
        Column("failed", "other failures"),
        Column("saved", "saved by finish"),
        Column("false_done", "false done"),
        Column("nearly_lost", "nearly lost"),
        Column("minutes", "minutes", "minutes"),
        Column("list_price_usd", "price", "usd"),
    )
    note = "A task counts once for each candidate that worked on it, and as delivered for the one that finished it."
    return Table("main", f"By {by}", columns, rows, note)


def _outcomes(named: Sequence[Row], by: str) -> Table:
    """The matrix: one column for each outcome that happened, the most frequent first."""
    names = [name for name, _ in _most(_groups(named, lambda row: row["outcome"]))]
    rows = tuple(
        {"name": name or "none", **{outcome: _of(group, outcome) for outcome in names}}
        for name, group in _most(_groups(named, lambda row: row["name"]))
    )
    columns = (Column("name", by, "text"), *(Column(name, name) for name in names))
    return Table("outcomes", f"Attempts by {by} and outcome", columns, rows)


def _credentials(sums: Sequence[Row]) -> Table:
    rows = tuple(
        {
            "credential": key[0],
            "billing": key[1],
            "attempts": _total(group, "attempts"),
            "quota_events": _of(group, *QUOTA),
            "minutes": _minutes(group),
            **{kind: _total(group, kind) for kind in _TOKENS},
            "list_price_usd": _usd(group),
            "priced": _total(group, "priced"),
            "billed_usd": _billed(group),
            "billed": _total(group, "billed"),
        }
        for key, group in _most(_groups(sums, lambda row: (row["credential"], row["billing"])))
    )
    columns = (
        Column("credential", "credential", "text"),
        Column("billing", "billing", "text"),
        Column("attempts", "attempts"),
        Column("quota_events", "quota"),
        Column("minutes", "minutes", "minutes"),
        Column("tokens_input", "tokens in", "tokens"),
        Column("tokens_output", "out", "tokens"),
        Column("tokens_cache_read", "cache read", "tokens"),
        Column("tokens_cache_write", "cache write", "tokens"),
        Column("tokens_reasoning", "reasoning", "tokens"),
        Column("list_price_usd", "list price", "usd"),
        Column("priced", "price known"),
        Column("billed_usd", "billed", "usd"),
        Column("billed", "billed known"),
    )
    note = (
        "The list price is what the CLI computes; billed is what was really paid. Both of the attempts that have one."
    )
    return Table("credentials", "Minutes and money by credential", columns, rows, note)


def _accepted(sums: Sequence[Row]) -> Table:
    """Everything that a model spent on a difficulty, failures included, over the tasks that were accepted from it."""
    found = _groups(sums, lambda row: (row["difficulty"], row["model"]))
    rows = []
    for (difficulty, model), group in sorted(found.items(), key=lambda item: (_level(item[0][0]), item[0][1])):
        accepted, minutes, usd = _total(group, "accepted"), _minutes(group), _usd(group)
        rows.append(
            {
                "difficulty": difficulty,
                "model": model,
                "accepted": accepted,
                "tasks": _total(group, "tasks"),
                "attempts": _total(group, "attempts"),
                "minutes": minutes,
                "list_price_usd": usd,
                "minutes_per_accepted": round(minutes / accepted, 2) if accepted else None,
                "usd_per_accepted": round(usd / accepted, 6) if accepted and usd is not None else None,
                "priced": _total(group, "priced"),
                "billed_usd": _billed(group),
            }
        )
    columns = (
        Column("difficulty", "difficulty", "text"),
        Column("model", "model", "text"),
        Column("accepted", "accepted"),
        Column("tasks", "of tasks"),
        Column("attempts", "attempts"),
        Column("minutes", "minutes", "minutes"),
        Column("list_price_usd", "price", "usd"),
        Column("minutes_per_accepted", "minutes per accepted", "minutes"),
        Column("usd_per_accepted", "price per accepted", "usd"),
        Column("priced", "price known"),
        Column("billed_usd", "billed", "usd"),
    )
    note = "All that the model spent on such tasks, failed attempts included, over the tasks accepted from it."
    return Table("accepted", "Cost of an accepted task", columns, tuple(rows), note)


def _level(difficulty: str) -> tuple[int, str]:
    return (_LEVELS.index(difficulty) if difficulty in _LEVELS else len(_LEVELS), difficulty)


def _tasks(tasks: Sequence[Row]) -> Table:
    names = [
        name
        for name in (*DELIVERED, *NOT_DELIVERED, *sorted({row["status"] for row in tasks}))
        if any(row["status"] == name for row in tasks)
    ]
    names = list(dict.fromkeys(names))
    rows = tuple(
        {
            "difficulty": difficulty,
            "tasks": sum(row["number"] for row in group),
            **{name: sum(row["number"] for row in group if row["status"] == name) for name in names},
        }
        for difficulty, group in sorted(
            _groups(tasks, lambda row: row["difficulty"]).items(), key=lambda item: _level(item[0])
        )
    )
    columns = (Column("difficulty", "difficulty", "text"), Column("tasks", "tasks"))
    return Table("tasks", "Tasks by difficulty", (*columns, *(Column(name, name) for name in names)), rows)


def _over_time(over_time: Sequence[Row], unit: str) -> Table:
    rows = tuple(
        {
            "period": period,
            "attempts": (attempts := _total(group, "attempts")),
            "completed": (completed := _of(group, "completed")),
            "quota_events": (quota := _of(group, *QUOTA)),
            "failed": attempts - completed - quota - _of(group, STOPPED),
            "delivered": _total(group, "delivered"),
            "minutes": _minutes(group),
            "list_price_usd": _usd(group),
        }
        for period, group in sorted(_groups(over_time, lambda row: row["period"]).items())
    )
    columns = (
        Column("period", unit, "text"),
        Column("attempts", "attempts"),
        Column("completed", "completed"),
        Column("quota_events", "quota"),
        Column("failed", "other failures"),
        Column("delivered", "delivered"),
        Column("minutes", "minutes", "minutes"),
        Column("list_price_usd", "price", "usd"),
    )
    return Table("time", f"By {unit}", columns, rows, f"A {unit} begins at midnight UTC.")
