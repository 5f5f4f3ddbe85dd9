"""Standard output and standard error, which take any text whatever the terminal speaks."""

from __future__ import annotations

import codecs
import io
import sys


def take_any_text() -> None:
    r"""Let both streams write what their encoding does not have, instead of failing.

    All output goes through them: click's, rich's and the log's. ASCII is what Python assumes where
    nobody says what the terminal speaks: then it is UTF-8. Any other encoding is kept. What it
    does not have, and bytes of file names that are no text, come as escapes such as ``\xe3``.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a closed one is None
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            encoding = "utf-8" if is_ascii else stream.encoding
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
