"""The store: SQLAlchemy schema, migrations and the repository."""
