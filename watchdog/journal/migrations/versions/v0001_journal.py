"""The first journal."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "incarnations",
        sa.Column("child", sa.String(64), primary_key=True),
        sa.Column("started_at", sa.Double, primary_key=True),
        sa.Column("epoch", sa.Integer),
        sa.Column("pid", sa.Integer),
        sa.Column("ready_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("cause", sa.String(32)),
        sa.Column("reason", sa.Text),
        sa.Column("exit_code", sa.Integer),
    )
    op.create_table(
        "intervals",
        sa.Column("child", sa.String(64), primary_key=True),
        sa.Column("since", sa.Double, primary_key=True),
        sa.Column("until", sa.Double, nullable=False, index=True),
        sa.Column("state", sa.String(32), nullable=False),
    )
    op.create_table(
        "samples",
        sa.Column("at", sa.Double, primary_key=True),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.create_table(
        "verdicts",
        sa.Column("at", sa.Double, primary_key=True),
        sa.Column("detector", sa.String(64), primary_key=True),
        sa.Column("level", sa.String(16), nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("evidence", sa.JSON, nullable=False),
    )
    op.create_table(
        "actions",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("at", sa.Double, nullable=False, index=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("incident", sa.String(32), index=True),
        sa.Column("ended_at", sa.Double),
        sa.Column("outcome", sa.Text),
    )
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("opened_at", sa.Double, nullable=False, index=True),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("evidence", sa.JSON, nullable=False),
        sa.Column("closed_at", sa.Double),
    )
