"""The store: SQLAlchemy schema, migrations and the repository."""

__all__ = [
    "bias_score_rows", "codings", "database", "dictionary_rows", "erasure", "evaluator",
    "exclusions", "id_keys", "retired", "schema", "shard_rows", "upkeep",
]  # fmt: skip
