"""A review by a second model is nobody's accepted work: it leaves the counts and the sums, its cost stays."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_REVIEWS = """SELECT id FROM task WHERE status = 'accepted' AND flags LIKE '%"review of %' ORDER BY id"""


def upgrade() -> None:
    """The reviews leave all sums by the old triggers and enter them again by the new ones."""
    connection = op.get_bind()
    reviews = [row[0] for row in connection.exec_driver_sql(_REVIEWS)]
    for task in reviews:
        connection.exec_driver_sql("UPDATE task SET status = 'needs_review' WHERE id = ?", (task,))
    for name in _NAMES:
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    connection.exec_driver_sql("DROP VIEW v_measures")
    for statement in (_MEASURES, *_TRIGGERS):
        connection.exec_driver_sql(statement)
    for task in reviews:
        connection.exec_driver_sql("UPDATE task SET status = 'accepted' WHERE id = ?", (task,))


_NAMES = (
    "task_count_insert",
    "task_count_delete",
    "task_count_update",
    "task_rollup_insert",
    "task_rollup_delete",
    "task_rollup_update",
)

_MEASURES = """\
CREATE VIEW v_measures AS
SELECT a.id, a.task_id, a.started_at,
    coalesce(strftime('%Y-%m', a.started_at, 'unixepoch'), '') AS month,
    a.candidate, a.harness, a.model, a.credential, a.billing, t.difficulty, coalesce(a.outcome, 'unknown') AS outcome,
    a.prompt, a.verdict, a.source, t.repository, t.batch, t.status AS task_status,
    1 AS attempts,
    NOT EXISTS (
        SELECT 1 FROM attempt b WHERE b.task_id = a.task_id AND b.number < a.number AND b.candidate = a.candidate
        AND b.ended_at IS NOT NULL
    ) AS tasks,
    a.counted,
    a.verdict IS 'review' AND NOT EXISTS (
        SELECT 1 FROM attempt b WHERE b.task_id = a.task_id AND b.number < a.number AND b.candidate = a.candidate
        AND b.verdict = 'review'
    ) AS delivered,
    a.verdict IS 'review' AND a.prompt IN ('finish', 'continue', 'confirm') AS saved,
    a.outcome IS 'completed'
        AND coalesce(a.verdict, '') IN ('finish', 'continue', 'confirm', 'redispatch', 'needs_human') AS false_done,
    CASE WHEN a.outcome IN ('completed', 'awaiting_approval') OR NOT json_valid(a.evidence) THEN 0
        ELSE coalesce(json_array_length(a.evidence, '$.commits'), 0)
            + coalesce(json_array_length(a.evidence, '$.dirty'), 0)
            + coalesce(json_array_length(a.evidence, '$.elsewhere'), 0) > 0 END AS nearly_lost,
    CASE WHEN t.status <> 'accepted' OR t.source = 'import' OR t.flags LIKE '%"review of %' THEN 0 ELSE a.id = (
        SELECT b.id FROM attempt b WHERE b.task_id = a.task_id AND b.ended_at IS NOT NULL
        ORDER BY b.verdict IS 'review' DESC, b.number DESC LIMIT 1
    ) END AS accepted,
    CASE WHEN t.status <> 'rejected' OR t.source = 'import' THEN 0 ELSE a.id = (
        SELECT b.id FROM attempt b WHERE b.task_id = a.task_id AND b.ended_at IS NOT NULL
        ORDER BY b.verdict IS 'review' DESC, b.number DESC LIMIT 1
    ) END AS rejected,
    coalesce(a.seconds, 0.0) AS seconds, coalesce(a.cost_usd, 0.0) AS cost_usd, a.cost_usd IS NOT NULL AS priced,
    coalesce(a.billed_usd, 0.0) AS billed_usd, a.billed_usd IS NOT NULL AS billed,
    coalesce(a.tokens_input, 0) AS tokens_input, coalesce(a.tokens_output, 0) AS tokens_output,
    coalesce(a.tokens_cache_read, 0) AS tokens_cache_read, coalesce(a.tokens_cache_write, 0) AS tokens_cache_write,
    coalesce(a.tokens_reasoning, 0) AS tokens_reasoning
FROM attempt a CROSS JOIN task t ON t.id = a.task_id
WHERE a.ended_at IS NOT NULL"""

_NEW, _OLD = (f"({row}.status = 'accepted' AND {row}.flags LIKE '%\"review of %')" for row in ("new", "old"))
_TRIGGERS = (
    f"""\
CREATE TRIGGER task_count_insert AFTER INSERT ON task WHEN NOT {_NEW} BEGIN
    INSERT INTO task_count (status, number) VALUES (new.status, 1)
    ON CONFLICT (status) DO UPDATE SET number = number + 1;
END""",
    f"""\
CREATE TRIGGER task_count_delete AFTER DELETE ON task WHEN NOT {_OLD} BEGIN
    UPDATE task_count SET number = number - 1 WHERE status = old.status;
END""",
    f"""\
CREATE TRIGGER task_count_update AFTER UPDATE OF status ON task WHEN old.status <> new.status BEGIN
    UPDATE task_count SET number = number - 1 WHERE status = old.status AND NOT {_OLD};
    INSERT INTO task_count (status, number) SELECT new.status, 1 WHERE NOT {_NEW}
    ON CONFLICT (status) DO UPDATE SET number = number + 1;
END""",
    f"""\
CREATE TRIGGER task_rollup_insert AFTER INSERT ON task WHEN NOT {_NEW} BEGIN
    INSERT INTO task_rollup (month, difficulty, status, number)
    VALUES (coalesce(strftime('%Y-%m', new.created_at, 'unixepoch'), ''), new.difficulty, new.status, 1)
    ON CONFLICT (month, difficulty, status) DO UPDATE SET number = number + 1;
END""",
    f"""\
CREATE TRIGGER task_rollup_delete AFTER DELETE ON task WHEN NOT {_OLD} BEGIN
    UPDATE task_rollup SET number = number - 1
    WHERE month = coalesce(strftime('%Y-%m', old.created_at, 'unixepoch'), '') AND difficulty = old.difficulty
    AND status = old.status;
END""",
    f"""\
CREATE TRIGGER task_rollup_update AFTER UPDATE OF status, difficulty ON task
WHEN old.status <> new.status OR old.difficulty <> new.difficulty BEGIN
    UPDATE task_rollup SET number = number - 1
    WHERE month = coalesce(strftime('%Y-%m', old.created_at, 'unixepoch'), '') AND difficulty = old.difficulty
    AND status = old.status AND NOT {_OLD};
    INSERT INTO task_rollup (month, difficulty, status, number)
    SELECT coalesce(strftime('%Y-%m', new.created_at, 'unixepoch'), ''), new.difficulty, new.status, 1
    WHERE NOT {_NEW}
    ON CONFLICT (month, difficulty, status) DO UPDATE SET number = number + 1;
END""",
)
