"""Alembic entry point; the caller passes its open connection in the configuration."""

from __future__ import annotations

from alembic import context

from monitor.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
