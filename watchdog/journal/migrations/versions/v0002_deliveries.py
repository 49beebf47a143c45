"""Webhooks on their way, and what became of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(160), primary_key=True),
        sa.Column("incident", sa.String(32), nullable=False, index=True),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("at", sa.Double, nullable=False, index=True),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("outcome", sa.String(16)),
        sa.Column("ended_at", sa.Double),
        sa.Column("error", sa.Text),
        sa.Column("line", sa.Text, nullable=False),
    )
