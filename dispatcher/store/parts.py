"""Sums for the reports that the rollup cannot answer: by repository, batch, source and day, and of all time at once.

Each attempt is in the sums of several parts. Those of `all` and `in` keep every key of the rollup (of all time; of one
repository by month), the others only the outcome. They are kept as the rollup is: what a task's attempts measure leaves
before a change and enters after it.
"""

from __future__ import annotations

_PARTS = "(VALUES ('all', 1), ('in', 1), ('month', 0), ('day', 0), ('repository', 0), ('batch', 0), ('source', 0))"
_NAME = """\
    CASE p.column1 WHEN 'day' THEN coalesce(strftime('%Y-%m-%d', started_at, 'unixepoch'), '')
        WHEN 'source' THEN source WHEN 'batch' THEN coalesce(batch, '')
        WHEN 'in' THEN coalesce(repository, '') WHEN 'repository' THEN coalesce(repository, '') ELSE '' END"""
_MONTH = "CASE p.column1 WHEN 'all' THEN '' ELSE month END"
_KEYS = ("candidate", "harness", "model", "credential", "billing", "difficulty")
_SUMS = (
    "attempts", "tasks", "counted", "delivered", "saved", "false_done", "nearly_lost", "accepted", "rejected",
    "seconds", "cost_usd", "priced", "billed_usd", "billed", "tokens_input", "tokens_output", "tokens_cache_read",
    "tokens_cache_write", "tokens_reasoning",
)  # fmt: skip
_COLUMNS = ", ".join(("part", "name", "month", *_KEYS, "outcome", *_SUMS))
_ADDED = ",\n        ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)


def _select(measures: str) -> str:
    keys = ", ".join(f"CASE WHEN p.column2 THEN {name} ELSE '' END" for name in _KEYS)
    return f"SELECT p.column1,\n{_NAME},\n    {_MONTH},\n    {keys},\n    outcome, {measures}"


def _trigger(head: str, sign: str, task: str) -> str:
    return f"""\
CREATE TRIGGER {head} BEGIN
    INSERT INTO rollup_part ({_COLUMNS})
    {_select(", ".join(f"{sign}{name}" for name in _SUMS))}
    FROM v_measures CROSS JOIN {_PARTS} p WHERE task_id = {task}
    ON CONFLICT (part, name, month, {", ".join(_KEYS)}, outcome) DO UPDATE SET
        {_ADDED};
END"""


_ENDS = "WHEN old.ended_at IS NOT NULL OR new.ended_at IS NOT NULL"
_JUDGED = """\
WHEN old.difficulty <> new.difficulty OR old.repository IS NOT new.repository OR old.batch IS NOT new.batch
OR old.status <> new.status
AND (old.status IN ('accepted', 'rejected') OR new.status IN ('accepted', 'rejected'))"""
_OF_TASK = "UPDATE OF status, difficulty, repository, batch ON task"

TRIGGERS = (
    _trigger(
        "rollup_part_attempt_insert_before BEFORE INSERT ON attempt WHEN new.ended_at IS NOT NULL", "-", "new.task_id"
    ),
    _trigger(
        "rollup_part_attempt_insert_after AFTER INSERT ON attempt WHEN new.ended_at IS NOT NULL", "", "new.task_id"
    ),
    _trigger(f"rollup_part_attempt_update_before BEFORE UPDATE ON attempt\n{_ENDS}", "-", "old.task_id"),
    _trigger(f"rollup_part_attempt_update_after AFTER UPDATE ON attempt\n{_ENDS}", "", "new.task_id"),
    _trigger(
        "rollup_part_attempt_delete_before BEFORE DELETE ON attempt WHEN old.ended_at IS NOT NULL", "-", "old.task_id"
    ),
    _trigger(
        "rollup_part_attempt_delete_after AFTER DELETE ON attempt WHEN old.ended_at IS NOT NULL", "", "old.task_id"
    ),
    _trigger(f"rollup_part_task_leave BEFORE {_OF_TASK}\n{_JUDGED}", "-", "old.id"),
    _trigger(f"rollup_part_task_enter AFTER {_OF_TASK}\n{_JUDGED}", "", "new.id"),
)

REFILL = (  # the measures of a row are dear, so each is computed once, into the finest sums; the parts add these up
    "DELETE FROM rollup_part",
    "DROP TABLE IF EXISTS temp.finest",
    f"""\
CREATE TEMP TABLE finest AS
SELECT min(started_at) AS started_at, month, {", ".join(_KEYS)}, outcome, repository, batch, source,
    {", ".join(f"sum({name}) AS {name}" for name in _SUMS)}
FROM v_measures
GROUP BY strftime('%Y-%m-%d', v_measures.started_at, 'unixepoch'), month, {", ".join(_KEYS)}, outcome,
    repository, batch, source""",
    f"""\
INSERT INTO rollup_part ({_COLUMNS})
{_select(", ".join(f"sum({name})" for name in _SUMS))}
FROM temp.finest CROSS JOIN {_PARTS} p
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, outcome""",
    "DROP TABLE temp.finest",
)
