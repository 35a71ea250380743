"""The first schema: tables, indexes, views, and the counting of tasks by status."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for make in (queue, attempts, history, people):
        make()
    for statement in (*VIEWS, *COUNTING):
        op.execute(statement)


def queue() -> None:
    op.create_table(
        "batch",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("data", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "task_count",
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("status"),
    )
    op.create_table(
        "task",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("brief_text", sa.Text(), nullable=False),
        sa.Column("brief_path", sa.Text(), nullable=True),
        sa.Column("brief_digest", sa.Text(), nullable=False),
        sa.Column("repository", sa.Text(), nullable=True),
        sa.Column("difficulty", sa.Text(), nullable=False),
        sa.Column("difficulty_reason", sa.Text(), nullable=False),
        sa.Column("expect", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("not_before", sa.Float(), nullable=True),
        sa.Column("batch", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("claimed_at", sa.Float(), nullable=True),
        sa.Column("copy_path", sa.Text(), nullable=True),
        sa.Column("task_base", sa.Text(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("result_commit", sa.Text(), nullable=True),
        sa.Column("final_text", sa.Text(), nullable=True),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("next_step", sa.Text(), nullable=False),
        sa.Column("counters", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch"],
            ["batch.name"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("task_batch", "task", ["batch"], unique=False)
    op.create_index("task_created", "task", ["created_at"], unique=False)
    op.create_index("task_digest", "task", ["brief_digest"], unique=False)
    op.create_index("task_path", "task", ["brief_path"], unique=False)
    op.create_index(
        "task_ready",
        "task",
        [sa.text("priority DESC"), "id", "status", "not_before"],
        sqlite_where=sa.text("status IN ('queued', 'waiting')"),
    )
    op.create_index("task_status", "task", ["status", "id"], unique=False)
    op.create_table(
        "dependency",
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("needs_task_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["needs_task_id"],
            ["task.id"],
        ),
        sa.ForeignKeyConstraint(
            ["task_id"],
            ["task.id"],
        ),
        sa.PrimaryKeyConstraint("task_id", "needs_task_id"),
    )
    op.create_index("dependency_needs", "dependency", ["needs_task_id"], unique=False)


def attempts() -> None:
    op.create_table(
        "attempt",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=False),
        sa.Column("harness", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("billing", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("marker", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("harness_version", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("outcome_reason", sa.Text(), nullable=False),
        sa.Column("proof", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("verdict_reason", sa.Text(), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("timed_out", sa.Boolean(), nullable=False),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.Column("survivors", sa.Integer(), nullable=True),
        sa.Column("tokens_input", sa.Integer(), nullable=True),
        sa.Column("tokens_output", sa.Integer(), nullable=True),
        sa.Column("tokens_cache_read", sa.Integer(), nullable=True),
        sa.Column("tokens_cache_write", sa.Integer(), nullable=True),
        sa.Column("tokens_reasoning", sa.Integer(), nullable=True),
        sa.Column("cost_usd", sa.Float(), nullable=True),
        sa.Column("observed_model", sa.Text(), nullable=True),
        sa.Column("model_evidence", sa.Text(), nullable=False),
        sa.Column("detection", sa.Text(), nullable=True),
        sa.Column("base_commit", sa.Text(), nullable=True),
        sa.Column("result_commit", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("snapshot_ref", sa.Text(), nullable=True),
        sa.Column("final_text", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("checks", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["task_id"],
            ["task.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("task_id", "number", name="attempt_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("attempt_candidate", "attempt", ["candidate", "started_at", "outcome"], unique=False)
    op.create_index("attempt_model", "attempt", ["model", "started_at"], unique=False)
    op.create_index("attempt_open", "attempt", ["task_id"], unique=False, sqlite_where=sa.text("ended_at IS NULL"))
    op.create_index("attempt_outcome", "attempt", ["outcome", "started_at"], unique=False)
    op.create_index(
        "attempt_spend",
        "attempt",
        [
            "credential",
            "started_at",
            "cost_usd",
            "tokens_input",
            "tokens_output",
            "tokens_cache_read",
            "tokens_cache_write",
            "tokens_reasoning",
            "seconds",
        ],
        unique=False,
    )
    op.create_index("attempt_started", "attempt", ["started_at"], unique=False)
    op.create_table(
        "check_result",
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.Column("red_before", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.PrimaryKeyConstraint("attempt_id", "position"),
    )


def history() -> None:
    op.create_table(
        "event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=True),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.ForeignKeyConstraint(
            ["task_id"],
            ["task.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("event_task", "event", ["task_id", "id"], unique=False)
    op.create_table(
        "hold",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("until", sa.Float(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("window_name", sa.Text(), nullable=True),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("lifted_at", sa.Float(), nullable=True),
        sa.Column("lifted_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("hold_active", "hold", ["scope", "key"], unique=False, sqlite_where=sa.text("lifted_at IS NULL"))
    op.create_index("hold_key", "hold", ["scope", "key", "created_at"], unique=False)


def people() -> None:
    op.create_table(
        "review",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("result_commit", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.ForeignKeyConstraint(
            ["task_id"],
            ["task.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("review_task", "review", ["task_id", "id"], unique=False)
    op.create_table(
        "approval",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Integer(), nullable=False),
        sa.Column("asked_at", sa.Float(), nullable=False),
        sa.Column("harness", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("answered_at", sa.Float(), nullable=True),
        sa.Column("answered_by", sa.Text(), nullable=True),
        sa.Column("answered_from", sa.Text(), nullable=True),
        sa.Column("answer_reason", sa.Text(), nullable=True),
        sa.Column("remember", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("consumed_at", sa.Float(), nullable=True),
        sa.Column("transcript", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.ForeignKeyConstraint(
            ["task_id"],
            ["task.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("approval_digest", "approval", ["digest"], unique=False)
    op.create_index(
        "approval_pending", "approval", ["asked_at"], unique=False, sqlite_where=sa.text("status = 'pending'")
    )
    op.create_index("approval_task", "approval", ["task_id", "id"], unique=False)
    op.create_table(
        "approval_grant",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("approval_id", sa.Integer(), nullable=True),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("scope_key", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("used_at", sa.Float(), nullable=True),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["approval_id"],
            ["approval.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "grant_active",
        "approval_grant",
        ["scope", "scope_key"],
        unique=False,
        sqlite_where=sa.text("revoked_at IS NULL"),
    )


VIEWS = (
    """\
CREATE VIEW v_tasks AS
SELECT t.id, t.title, t.status, t.status_reason, t.difficulty, t.difficulty_reason, t.expect, t.priority,
    t.repository, t.batch, t.source, t.created_at, t.updated_at, t.not_before,
    strftime('%Y-%m-%dT%H:%M:%SZ', t.created_at, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%SZ', t.updated_at, 'unixepoch') AS updated,
    json_extract(t.counters, '$.starts') AS starts,
    json_extract(t.counters, '$.attempts') AS redispatches,
    json_extract(t.counters, '$.finish_attempts') AS finish_attempts,
    json_extract(t.counters, '$.escalations') AS escalations,
    json_extract(t.counters, '$.check_failures') AS check_failures,
    json_extract(t.next_step, '$.prompt') AS next_prompt,
    json_extract(t.next_step, '$.candidate') AS next_candidate,
    t.flags, t.brief_path, t.brief_text, t.copy_path, t.branch, t.result_commit, t.final_text, t.notes
FROM task t""",
    """\
CREATE VIEW v_attempts AS
SELECT a.id, a.task_id, a.number, t.title, t.status AS task_status, t.difficulty, t.repository, t.batch,
    a.prompt, a.candidate, a.harness, a.harness_version, a.model, a.observed_model, a.model_evidence,
    a.credential, a.billing, a.outcome, a.outcome_reason, a.proof, a.verdict, a.verdict_reason, a.counted,
    a.exit_code, a.signal, a.timed_out, a.end_reason, a.survivors, a.started_at, a.ended_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.started_at, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.ended_at, 'unixepoch') AS ended,
    a.seconds, a.tokens_input, a.tokens_output, a.tokens_cache_read, a.tokens_cache_write, a.tokens_reasoning,
    a.cost_usd, a.detection, a.base_commit, a.result_commit, a.snapshot_ref, a.session_id, a.folder, a.host,
    a.source, a.notes, a.final_text
FROM attempt a JOIN task t ON t.id = a.task_id""",
    """\
CREATE VIEW v_events AS
SELECT e.id, e.task_id, e.attempt_id, e.at, strftime('%Y-%m-%dT%H:%M:%SZ', e.at, 'unixepoch') AS happened,
    e.kind, e.text, e.actor, e.data
FROM event e""",
    """\
CREATE VIEW v_holds AS
SELECT h.id, h.scope, h.key, h.reason, h.window_name, h.actor, h.created_at, h.until, h.lifted_at, h.lifted_by,
    strftime('%Y-%m-%dT%H:%M:%SZ', h.created_at, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%SZ', h.until, 'unixepoch') AS until_time
FROM hold h""",
    """\
CREATE VIEW v_checks AS
SELECT c.attempt_id, a.task_id, c.position, c.command, c.hidden, c.passed, c.exit_code, c.seconds, c.red_before,
    c.output
FROM check_result c JOIN attempt a ON a.id = c.attempt_id""",
    """\
CREATE VIEW v_reviews AS
SELECT r.id, r.task_id, r.attempt_id, t.title, r.at, strftime('%Y-%m-%dT%H:%M:%SZ', r.at, 'unixepoch') AS reviewed,
    r.decision, r.kind, r.actor, r.text, r.result_commit
FROM review r JOIN task t ON t.id = r.task_id""",
    """\
CREATE VIEW v_approvals AS
SELECT p.id, p.task_id, p.attempt_id, t.title, p.status, p.tool, p.input, p.folder, p.rule, p.asked_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', p.asked_at, 'unixepoch') AS asked,
    p.answered_at, p.answered_by, p.answered_from, p.answer_reason, p.remember, p.expires_at, p.consumed_at
FROM approval p JOIN task t ON t.id = p.task_id""",
)

COUNTING = (
    """\
CREATE TRIGGER task_count_insert AFTER INSERT ON task BEGIN
    INSERT INTO task_count (status, number) VALUES (new.status, 1)
    ON CONFLICT (status) DO UPDATE SET number = number + 1;
END""",
    """\
CREATE TRIGGER task_count_delete AFTER DELETE ON task BEGIN
    UPDATE task_count SET number = number - 1 WHERE status = old.status;
END""",
    """\
CREATE TRIGGER task_count_update AFTER UPDATE OF status ON task WHEN old.status <> new.status BEGIN
    UPDATE task_count SET number = number - 1 WHERE status = old.status;
    INSERT INTO task_count (status, number) VALUES (new.status, 1)
    ON CONFLICT (status) DO UPDATE SET number = number + 1;
END""",
)
