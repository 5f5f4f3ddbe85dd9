"""Resolution of shown numbers, and the rules that exported names obey."""

__all__ = ["bands", "rules"]
