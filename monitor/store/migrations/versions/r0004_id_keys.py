"""Id keys by the day from which they are used; labels at a change of the key know both hashes.

The one key there was becomes the first. A key that the store had made and never used goes.
"""

from __future__ import annotations

from hashlib import blake2b

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_BEGINNING = -62_135_596_800_000_000  # the first instant that a datetime can be


def upgrade() -> None:
    """Make the table, move the fingerprint there, add the column."""
    op.add_column(
        "waiting_label",
        sa.Column("other_id", sa.BigInteger(), nullable=False, server_default="0"),
    )
    id_key = op.create_table(
        "id_key",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("effective_from", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        comment="Keys that ids are hashed with, by the event time from which on; not the keys.",
    )
    rows = op.get_bind().execute(sa.text("SELECT name, value FROM meta"))
    facts: dict[str, str] = {row.name: row.value for row in rows}
    mark = facts.get("id_key_fingerprint")
    own = "id_key" in facts and _mark(facts["id_key"]) == mark
    if mark is not None:
        name = "store" if own else "default"
        op.bulk_insert(id_key, [{"id": name, "effective_from": _BEGINNING, "fingerprint": mark}])
    op.execute("DELETE FROM meta WHERE name = 'id_key_fingerprint'")
    if not own:
        op.execute("DELETE FROM meta WHERE name = 'id_key'")


def _mark(key: str) -> str:
    return blake2b(b"slicewatch id key", digest_size=8, key=bytes.fromhex(key)).hexdigest()
