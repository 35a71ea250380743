"""Indexes for the filters of `log`."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, table, columns in INDEXES:
        op.create_index(name, table, columns, unique=False)


INDEXES = (
    ("task_repository", "task", ["repository"]),
    ("attempt_verdict", "attempt", ["verdict", "started_at"]),
    ("attempt_harness", "attempt", ["harness", "started_at"]),
)
