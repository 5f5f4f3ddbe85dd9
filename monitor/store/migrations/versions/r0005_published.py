"""Tables of what was published, for people who may read nothing else.

They begin with the next publication.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_RATE = ("value", "lower", "upper", "at_least", "at_most")
_GAP = ("gap", "gap_lower", "gap_upper", "ratio", "ratio_lower", "ratio_upper")


def upgrade() -> None:
    """Make the tables."""
    _make_contracts()
    _make_windows()
    _make_rates()


def _make(name: str, keys: tuple[str, ...], comment: str, *columns: sa.Column[Any]) -> None:
    op.create_table(
        name,
        sa.Column("day", sa.Date(), nullable=False),
        *(_text(key) for key in keys),
        *columns,
        sa.PrimaryKeyConstraint("day", *keys),
        sqlite_with_rowid=False,
        comment=comment,
    )


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _integer(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), nullable=nullable)


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _instant(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _numbers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Double(), nullable=True) for name in names]


def _make_contracts() -> None:
    _make(
        "published_contract",
        ("contract",),
        "Published: the contracts of a UTC day, and how far its newest publication goes.",
        _text("version"),
        _text("owner"),
        _flag("synthetic"),
        _integer("k"),
        _text("verdict_window"),
        _instant("complete_to"),
        _instant("labels_mature_to", nullable=True),
    )
    _make(
        "published_limit",
        ("contract", "metric"),
        "Published: what a contract allows; NULL is not limited.",
        *_numbers("max_gap", "min_level", "max_level"),
        _integer("min_support", nullable=True),
    )


def _make_windows() -> None:
    _make(
        "published_window",
        ("contract", "window_name", "group_by", "kind"),
        "Published: the event time that rates of a kind (decisions, labelled) are about.",
        _instant("starts_at"),
        _instant("ends_at"),
        _flag("data_lost"),
        _flag("excluded"),
    )


def _make_rates() -> None:
    _make(
        "published_rate",
        ("contract", "window_name", "group_by", "slice", "metric"),
        "Published: rates and gaps of every slice, a day a row; NULL is withheld.",
        _text("kind"),
        _text("state"),
        *_numbers(*_RATE),
        _integer("support", nullable=True),
        _text("reference", nullable=True),
        *_numbers(*_GAP),
        _text("verdict", nullable=True),
        *_numbers("as_labelled", "completeness"),
    )
    _make(
        "published_calibration",
        ("contract", "window_name", "group_by", "slice", "band"),
        "Published: P(ready) of a slice by score band, a day a row; NULL is withheld.",
        *_numbers(*_RATE),
        _integer("support", nullable=True),
    )
