"""Sums by month for reports."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rollup",
        *(sa.Column(name, kind(), nullable=False) for name, kind in ROLLUP),
        sa.PrimaryKeyConstraint(*KEYS),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "task_rollup",
        sa.Column("month", sa.Text(), nullable=False),
        sa.Column("difficulty", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("month", "difficulty", "status"),
    )
    for statement in (VIEW, *FILLING, *TRIGGERS):
        op.execute(statement)


KEYS = ("candidate", "harness", "model", "credential", "billing", "difficulty", "outcome", "month")

ROLLUP = (
    *((name, sa.Text) for name in KEYS),
    ("attempts", sa.Integer),
    ("tasks", sa.Integer),
    ("counted", sa.Integer),
    ("delivered", sa.Integer),
    ("saved", sa.Integer),
    ("false_done", sa.Integer),
    ("nearly_lost", sa.Integer),
    ("accepted", sa.Integer),
    ("rejected", sa.Integer),
    ("seconds", sa.Float),
    ("cost_usd", sa.Float),
    ("priced", sa.Integer),
    ("billed_usd", sa.Float),
    ("billed", sa.Integer),
    ("tokens_input", sa.Integer),
    ("tokens_output", sa.Integer),
    ("tokens_cache_read", sa.Integer),
    ("tokens_cache_write", sa.Integer),
    ("tokens_reasoning", sa.Integer),
)

VIEW = """\
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
    CASE WHEN t.status <> 'accepted' OR t.source = 'import' THEN 0 ELSE a.id = (
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

FILLING = (
    """\
INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
)
SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, sum(attempts), sum(tasks),
    sum(counted), sum(delivered), sum(saved), sum(false_done), sum(nearly_lost), sum(accepted), sum(rejected),
    sum(seconds), sum(cost_usd), sum(priced), sum(billed_usd), sum(billed), sum(tokens_input), sum(tokens_output),
    sum(tokens_cache_read),
    sum(tokens_cache_write), sum(tokens_reasoning)
FROM v_measures GROUP BY month, candidate, harness, model, credential, billing, difficulty, outcome""",
    """\
INSERT INTO task_rollup (month, difficulty, status, number)
SELECT coalesce(strftime('%Y-%m', created_at, 'unixepoch'), ''), difficulty, status, count(*)
FROM task GROUP BY 1, 2, 3""",
)

TRIGGERS = (
    """\
CREATE TRIGGER rollup_attempt_insert_before BEFORE INSERT ON attempt WHEN new.ended_at IS NOT NULL BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, -attempts, -tasks, -counted,
    -delivered, -saved, -false_done, -nearly_lost, -accepted, -rejected, -seconds, -cost_usd, -priced, -billed_usd,
    -billed, -tokens_input,
    -tokens_output, -tokens_cache_read, -tokens_cache_write, -tokens_reasoning
    FROM v_measures WHERE task_id = new.task_id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER rollup_attempt_insert_after AFTER INSERT ON attempt WHEN new.ended_at IS NOT NULL BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    FROM v_measures WHERE task_id = new.task_id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER rollup_attempt_update_before BEFORE UPDATE ON attempt
WHEN old.ended_at IS NOT NULL OR new.ended_at IS NOT NULL BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, -attempts, -tasks, -counted,
    -delivered, -saved, -false_done, -nearly_lost, -accepted, -rejected, -seconds, -cost_usd, -priced, -billed_usd,
    -billed, -tokens_input,
    -tokens_output, -tokens_cache_read, -tokens_cache_write, -tokens_reasoning
    FROM v_measures WHERE task_id = old.task_id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER rollup_attempt_update_after AFTER UPDATE ON attempt
WHEN old.ended_at IS NOT NULL OR new.ended_at IS NOT NULL BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    FROM v_measures WHERE task_id = new.task_id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER rollup_attempt_delete_before BEFORE DELETE ON attempt WHEN old.ended_at IS NOT NULL BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, -attempts, -tasks, -counted,
    -delivered, -saved, -false_done, -nearly_lost, -accepted, -rejected, -seconds, -cost_usd, -priced, -billed_usd,
    -billed, -tokens_input,
    -tokens_output, -tokens_cache_read, -tokens_cache_write, -tokens_reasoning
    FROM v_measures WHERE task_id = old.task_id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER rollup_attempt_delete_after AFTER DELETE ON attempt WHEN old.ended_at IS NOT NULL BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    FROM v_measures WHERE task_id = old.task_id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER rollup_task_leave BEFORE UPDATE OF status, difficulty ON task
WHEN old.difficulty <> new.difficulty OR old.status <> new.status
AND (old.status IN ('accepted', 'rejected') OR new.status IN ('accepted', 'rejected')) BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, -attempts, -tasks, -counted,
    -delivered, -saved, -false_done, -nearly_lost, -accepted, -rejected, -seconds, -cost_usd, -priced, -billed_usd,
    -billed, -tokens_input,
    -tokens_output, -tokens_cache_read, -tokens_cache_write, -tokens_reasoning
    FROM v_measures WHERE task_id = old.id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER rollup_task_enter AFTER UPDATE OF status, difficulty ON task
WHEN old.difficulty <> new.difficulty OR old.status <> new.status
AND (old.status IN ('accepted', 'rejected') OR new.status IN ('accepted', 'rejected')) BEGIN
    INSERT INTO rollup (
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    ) SELECT
    month, candidate, harness, model, credential, billing, difficulty, outcome, attempts, tasks, counted, delivered,
    saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, priced, billed_usd, billed,
    tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning
    FROM v_measures WHERE task_id = new.id
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
        tokens_reasoning = tokens_reasoning + excluded.tokens_reasoning;
END""",
    """\
CREATE TRIGGER task_rollup_insert AFTER INSERT ON task BEGIN
    INSERT INTO task_rollup (month, difficulty, status, number)
    VALUES (coalesce(strftime('%Y-%m', new.created_at, 'unixepoch'), ''), new.difficulty, new.status, 1)
    ON CONFLICT (month, difficulty, status) DO UPDATE SET number = number + 1;
END""",
    """\
CREATE TRIGGER task_rollup_delete AFTER DELETE ON task BEGIN
    UPDATE task_rollup SET number = number - 1
    WHERE month = coalesce(strftime('%Y-%m', old.created_at, 'unixepoch'), '') AND difficulty = old.difficulty
    AND status = old.status;
END""",
    """\
CREATE TRIGGER task_rollup_update AFTER UPDATE OF status, difficulty ON task
WHEN old.status <> new.status OR old.difficulty <> new.difficulty BEGIN
    UPDATE task_rollup SET number = number - 1
    WHERE month = coalesce(strftime('%Y-%m', old.created_at, 'unixepoch'), '') AND difficulty = old.difficulty
    AND status = old.status;
    INSERT INTO task_rollup (month, difficulty, status, number)
    VALUES (coalesce(strftime('%Y-%m', new.created_at, 'unixepoch'), ''), new.difficulty, new.status, 1)
    ON CONFLICT (month, difficulty, status) DO UPDATE SET number = number + 1;
END""",
)
