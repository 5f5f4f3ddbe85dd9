"""The lease of the evaluator: one evaluator works at a time; its epoch fences every write."""

from __future__ import annotations

import sqlalchemy as sa

from monitor.errors import FencedError
from monitor.store.database import database_now, reading, writing

ROLE = "evaluator"


_FIRST = sa.text(
    "INSERT INTO lease (role, epoch, owner, until) VALUES (:role, 0, NULL, 0)"
    " ON CONFLICT DO NOTHING"
)
_TAKE = sa.text(
    "UPDATE lease SET until = :until, owner = :owner,"
    " epoch = epoch + CASE WHEN owner = :owner THEN 0 ELSE 1 END"
    " WHERE role = :role AND (owner IS NULL OR owner = :owner OR until < :now)"
    " RETURNING epoch"
)
_FENCE = sa.text("UPDATE lease SET epoch = epoch WHERE role = :role AND epoch = :epoch")


class Lease:
    """The evaluator's time-limited right to evaluate, by the database's clock."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def acquire(self, owner: str, lease: int) -> int | None:
        """Take or renew the lease; return its epoch, or None while another evaluator holds it.

        Args:
            owner: name of this evaluator.
            lease: microseconds on the database's clock.
        """
        with writing(self._engine) as connection:
            now = database_now(connection)
            parameters = {"role": ROLE, "owner": owner, "until": now + lease, "now": now}
            epoch: int | None = connection.execute(_TAKE, parameters).scalar()
            if epoch is None and connection.execute(_FIRST, {"role": ROLE}).rowcount:
                epoch = connection.execute(_TAKE, parameters).scalar()
        return epoch

    def renewed_ago(self, lease: int) -> int:
        """Return the microseconds since any evaluator renewed a lease of length ``lease``."""
        with reading(self._engine) as connection:
            until = connection.execute(
                sa.text("SELECT until FROM lease WHERE role = :role"), {"role": ROLE}
            ).scalar()
            return database_now(connection) - ((until or 0) - lease)

    def release(self, owner: str) -> None:
        """Give the owner's lease back, so that another evaluator can take it at once."""
        with writing(self._engine) as connection:
            connection.execute(
                sa.text("UPDATE lease SET owner = NULL WHERE role = :role AND owner = :owner"),
                {"role": ROLE, "owner": owner},
            )


def require_epoch(connection: sa.Connection, epoch: int) -> None:
    """Lock the lease for this transaction; refuse if its epoch is not ``epoch``.

    Raises:
        FencedError: another evaluator has taken over.
    """
    fence = connection.execute(_FENCE, {"role": ROLE, "epoch": epoch})
    if fence.rowcount != 1:
        raise FencedError(ROLE)
