"""Which process the worker was. It stays in the row after the end: an orphan that is found later can be told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, kind in (("pid", sa.Integer()), ("pid_start", sa.Integer()), ("boot", sa.Text())):
        op.add_column("attempt", sa.Column(name, kind, nullable=True))
