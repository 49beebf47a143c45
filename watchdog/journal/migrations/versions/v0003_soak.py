"""Soak runs, and their intervals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "soak_runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("began_at", sa.Double, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("verdict", sa.String(16)),
        sa.Column("result", sa.Text),
    )
    op.create_table(
        "soak_intervals",
        sa.Column("run", sa.String(32), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False, index=True),
        sa.Column("line", sa.Text, nullable=False),
    )
