"""The sums that reports are made of, kept up to date by triggers: the part of the schema that repeats itself.

The rollup holds the sums of `v_measures` by month, kept by the transaction that changes an attempt or a task: before
the change the rows of the task leave with their old values, after it they enter with their new ones (one attempt can
change what another one counts for). `store.figures` adds it up for reports.
"""

from __future__ import annotations

from dispatcher.store import parts

_NAMES = """\
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning"""
_NEGATIVE = """\
    month, candidate, harness, model, credential, billing, difficulty, outcome, -attempts, -tasks, -counted,
    -delivered, -saved, -false_done, -nearly_lost, -accepted, -rejected, -seconds, -cost_usd, -priced, -billed_usd,
    -billed, -tokens_input,
    -tokens_output, -tokens_cache_read, -tokens_cache_write, -tokens_reasoning"""
_ADDED = """\
    ON CONFLICT (candidate, harness, model, credential, billing, difficulty, outcome, month) DO UPDATE SET
        attempts = attempts + excluded.attempts, tasks = tasks + excluded.tasks,
        counted = counted + excluded.counted, delivered = delivered + excluded.delivered,
        saved = saved + excluded.saved, false_done = false_done + excluded.false_done,
        nearly_lost = nearly_lost + excluded.nearly_lost, accepted = accepted + excluded.accepted,
        rejected = rejected + excluded.rejected, seconds = seconds + excluded.seconds,
        cost_usd = cost_usd + excluded.cost_usd, priced = priced + excluded.priced,
        billed_usd = billed_usd + excluded.billed_usd,
        billed = billed + excluded.billed,
        tokens_input = tokens_input + excluded.tokens_input, tokens_output = tokens_output + excluded.tokens_output,
        tokens_cache_read = tokens_cache_read + excluded.tokens_cache_read,
        tokens_cache_write = tokens_cache_write + excluded.tokens_cache_write,
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning"""


def reviewed(row: str) -> str:
    """SQL: whether this row of `task` is a finished review by a second model, which is nobody's accepted work."""
    return f"({row}.status = 'accepted' AND {row}.flags LIKE '%\"review of %')"


def _trigger(head: str, values: str, task: str) -> str:
    """The measures of a task leave (`_NEGATIVE`) or enter (`_NAMES`)."""
    return f"""\
CREATE TRIGGER {head} BEGIN
    INSERT INTO rollup (
{_NAMES}
    ) SELECT
{values}
    FROM v_measures WHERE task_id = {task}
{_ADDED};
END"""


_ENDS = "WHEN old.ended_at IS NOT NULL OR new.ended_at IS NOT NULL"
_JUDGED = """\
WHEN old.difficulty <> new.difficulty OR old.status <> new.status
AND (old.status IN ('accepted', 'rejected') OR new.status IN ('accepted', 'rejected'))"""

ROLLUP = (
    _trigger(
        "rollup_attempt_insert_before BEFORE INSERT ON attempt WHEN new.ended_at IS NOT NULL", _NEGATIVE, "new.task_id"
    ),
    _trigger(
        "rollup_attempt_insert_after AFTER INSERT ON attempt WHEN new.ended_at IS NOT NULL", _NAMES, "new.task_id"
    ),
    _trigger(f"rollup_attempt_update_before BEFORE UPDATE ON attempt\n{_ENDS}", _NEGATIVE, "old.task_id"),
    _trigger(f"rollup_attempt_update_after AFTER UPDATE ON attempt\n{_ENDS}", _NAMES, "new.task_id"),
    _trigger(
        "rollup_attempt_delete_before BEFORE DELETE ON attempt WHEN old.ended_at IS NOT NULL", _NEGATIVE, "old.task_id"
    ),
    _trigger(
        "rollup_attempt_delete_after AFTER DELETE ON attempt WHEN old.ended_at IS NOT NULL", _NAMES, "old.task_id"
    ),
    _trigger(f"rollup_task_leave BEFORE UPDATE OF status, difficulty ON task\n{_JUDGED}", _NEGATIVE, "old.id"),
    _trigger(f"rollup_task_enter AFTER UPDATE OF status, difficulty ON task\n{_JUDGED}", _NAMES, "new.id"),
    f"""\
CREATE TRIGGER task_rollup_insert AFTER INSERT ON task WHEN NOT {reviewed("new")} BEGIN
    INSERT INTO task_rollup (month, difficulty, status, number)
    VALUES (coalesce(strftime('%Y-%m', new.created_at, 'unixepoch'), ''), new.difficulty, new.status, 1)
    ON CONFLICT (month, difficulty, status) DO UPDATE SET number = number + 1;
END""",
    f"""\
CREATE TRIGGER task_rollup_delete AFTER DELETE ON task WHEN NOT {reviewed("old")} BEGIN
    UPDATE task_rollup SET number = number - 1
    WHERE month = coalesce(strftime('%Y-%m', old.created_at, 'unixepoch'), '') AND difficulty = old.difficulty
    AND status = old.status;
END""",
    f"""\
CREATE TRIGGER task_rollup_update AFTER UPDATE OF status, difficulty ON task
WHEN old.status <> new.status OR old.difficulty <> new.difficulty BEGIN
    UPDATE task_rollup SET number = number - 1
    WHERE month = coalesce(strftime('%Y-%m', old.created_at, 'unixepoch'), '') AND difficulty = old.difficulty
    AND status = old.status AND NOT {reviewed("old")};
    INSERT INTO task_rollup (month, difficulty, status, number)
    SELECT coalesce(strftime('%Y-%m', new.created_at, 'unixepoch'), ''), new.difficulty, new.status, 1
    WHERE NOT {reviewed("new")}
    ON CONFLICT (month, difficulty, status) DO UPDATE SET number = number + 1;
END""",
    *parts.TRIGGERS,
)

REFILL = (  # after rows came in out of order (an import, a rebuild)
    "DELETE FROM rollup",
    "DELETE FROM task_rollup",
    f"""\
INSERT INTO rollup (
{_NAMES}
)
SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, sum(attempts), sum(tasks),
    sum(counted), sum(delivered), sum(saved), sum(false_done), sum(nearly_lost), sum(accepted), sum(rejected),
    sum(seconds), sum(cost_usd), sum(priced), sum(billed_usd), sum(billed), sum(tokens_input), sum(tokens_output),
    sum(tokens_cache_read),
    sum(tokens_cache_write), sum(tokens_reasoning)
FROM v_measures GROUP BY month, candidate, harness, model, credential, billing, difficulty, outcome""",
    f"""\
INSERT INTO task_rollup (month, difficulty, status, number)
SELECT coalesce(strftime('%Y-%m', created_at, 'unixepoch'), ''), difficulty, status, count(*)
FROM task WHERE NOT {reviewed("task")} GROUP BY 1, 2, 3""",
    *parts.REFILL,
)
