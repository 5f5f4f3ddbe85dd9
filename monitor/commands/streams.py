"""Standard output and standard error that accept any text."""

from __future__ import annotations

import codecs
import io
import sys


def take_any_text() -> None:
    r"""Make stdout and stderr escape characters that their encoding lacks, instead of failing.

    All output goes through them: click's, rich's and the log's. Python assumes ASCII if nobody
    names an encoding; UTF-8 is used instead. Any other encoding is kept. Characters that it lacks,
    and undecodable bytes of file names, become escapes such as ``\xe3``.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a closed one is None
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            encoding = "utf-8" if is_ascii else stream.encoding
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
