"""Calendar tables are made from everything that was counted in their spans."""

__all__: list[str] = []
