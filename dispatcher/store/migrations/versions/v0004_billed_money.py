"""What an attempt was billed, beside its list price."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("billed_usd", sa.Float(), nullable=True))
    op.execute("DROP VIEW v_attempts")
    op.execute(VIEW)


VIEW = """\
CREATE VIEW v_attempts AS
SELECT a.id, a.task_id, a.number, t.title, t.status AS task_status, t.difficulty, t.repository, t.batch,
    a.prompt, a.candidate, a.harness, a.harness_version, a.model, a.observed_model, a.model_evidence,
    a.credential, a.billing, a.outcome, a.outcome_reason, a.proof, a.verdict, a.verdict_reason, a.counted,
    a.exit_code, a.signal, a.timed_out, a.end_reason, a.survivors, a.started_at, a.ended_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.started_at, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.ended_at, 'unixepoch') AS ended,
    a.seconds, a.tokens_input, a.tokens_output, a.tokens_cache_read, a.tokens_cache_write, a.tokens_reasoning,
    a.cost_usd, a.billed_usd, a.detection, a.base_commit, a.result_commit, a.snapshot_ref, a.session_id, a.folder,
    a.host, a.source, a.notes, a.final_text
FROM attempt a JOIN task t ON t.id = a.task_id"""
