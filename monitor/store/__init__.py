"""SQLAlchemy schema of the store, migrations, and reads and writes of its tables."""

__all__ = [
    "bias_score_rows", "codings", "database", "deltas", "dictionary_rows", "erasure", "evaluator",
    "exclusions", "id_keys", "retired", "schema", "shard_rows", "upkeep",
]  # fmt: skip
