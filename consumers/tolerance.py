"""JSON as careless writers make it, read so that only fields that we need can make it unreadable.

msgspec refuses a message for NaN, half a surrogate pair or a wrong escape anywhere in it. Such a
value is replaced by an empty list, which fits no field of an event: where it is declared the error
names the field, and elsewhere nobody reads it. The strict decoder always goes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

Content = TypeVar("Content")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UNREADABLE = b"[]"
# An unterminated text matches to the end, else each of its quotes would be tried as a beginning.
_TOKEN = re.compile(
    rb'(?P<text>"(?:[^"\\]++|\\.)*+"?)(?P<colon>\s*:)?|-?\b(?:nan|inf(?:inity)?)\b',
    re.DOTALL | re.IGNORECASE,
)
_decode_text = msgspec.json.Decoder(str).decode


def decode_tolerantly(decode: Callable[[bytes], Content], message: bytes) -> Content:
    """Return ``decode(message)``, or of the repaired message if it is malformed.

    Raises:
        ValueError: the repaired message is malformed, or does not fit the decoder's type.
        RecursionError: it is nested too deeply.
    """
    try:
        return decode(message)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decode(repaired(message))


def repaired(message: bytes) -> bytes:
    r"""Return the message with ``[]`` for values that are no JSON, and without a byte-order mark.

    Example:
        >>> repaired(rb'{"a": NaN, "b": -Infinity, "c": "\ud83d", "NaN": "ok"}')
        b'{"a": [], "b": [], "c": [], "NaN": "ok"}'
    """
    return _TOKEN.sub(_repaired_token, message.removeprefix(BYTE_ORDER_MARK))


def _repaired_token(match: re.Match[bytes]) -> bytes:
    """Return a token of JSON; one with broken Unicode is replaced by a marker."""
    text = match["text"]
    if text is None:
        return _UNREADABLE
    try:
        _decode_text(text)
    except ValueError:
        # A name only has to differ from the names of fields.
        return b'"\xef\xbf\xbd":' if match["colon"] else _UNREADABLE
    return match[0]
