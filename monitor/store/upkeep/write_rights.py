"""Test whether this login may write as the service does, without leaving a trace."""

from __future__ import annotations

import sqlalchemy as sa

from monitor.errors import StoreError
from monitor.store.database import reading, writing
from monitor.store.schema import metadata

_SHOWN = 3
_OPERATIONS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_LACKING = sa.text(
    "SELECT name || ' (' || string_agg(right_, ', ' ORDER BY place) || ')'"
    " FROM unnest(CAST(:tables AS text[])) AS name,"
    " unnest(CAST(:rights AS text[])) WITH ORDINALITY AS r(right_, place)"
    " WHERE NOT has_table_privilege(quote_ident(name), right_) GROUP BY name ORDER BY name"
)
_READ_ONLY = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
_TEMPORARY = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"


def require_write_rights(engine: sa.Engine) -> str:
    """Check that this login can write all tables; return what was checked, in words.

    On a server this asks for the login's rights, table by table. An SQLite file is opened for
    writing, in a transaction that writes nothing.

    Raises:
        StoreError: a right is missing; the message names the fix.
    """
    if engine.dialect.name == "sqlite":
        with writing(engine):
            return "a transaction for writing was opened, and nothing written"
    with reading(engine) as connection:
        if connection.exec_driver_sql(_READ_ONLY).scalar_one():
            raise StoreError(
                "the database takes no writes (a standby, or default_transaction_read_only): name"
                " the primary in store.url"
            )
        tables = [table.name for table in metadata.sorted_tables]
        parameters = {"tables": tables, "rights": list(_OPERATIONS)}
        lacking = list(connection.execute(_LACKING, parameters).scalars())
        if not connection.exec_driver_sql(_TEMPORARY).scalar_one():
            lacking.append("temporary tables")
    if lacking:
        shown = ", ".join(lacking[:_SHOWN]) + (" and more" if len(lacking) > _SHOWN else "")
        raise StoreError(
            f"this login may not write {shown}: run deploy/postgresql/roles.sql again, and let the"
            " service log in as a member of slicewatch_writer"
        )
    return f"this login has the rights to write all {len(tables)} tables; nothing was written"
