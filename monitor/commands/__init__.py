"""Commands of the command line, one module each."""

__all__ = ["starting", "streams"]
