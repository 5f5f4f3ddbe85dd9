"""Kinds of setting values: names, counts, exact limits, durations, secrets and URLs.

Every kind carries its description for error messages.

Example:
    >>> duration_micros("10m") == 10 * MINUTE, duration_text(Duration(90 * MINUTE))
    (True, '90m')
    >>> Secret("s3cret"), Secret("s3cret").reveal()
    (Secret('********'), 's3cret')
    >>> Url("postgresql://app:pw@db/slicewatch").masked
    'postgresql://app:********@db/slicewatch'
"""

from __future__ import annotations

import re
from fractions import Fraction
from hmac import compare_digest
from typing import Annotated, NewType
from unicodedata import combining, normalize

from msgspec import Meta

from monitor.core.quiet_times import QUIET_TIME, TIME, WEEKDAYS
from monitor.core.time import DAY, HOUR, MINUTE, SECOND

MASK = "********"
MILLISECOND = SECOND // 1000
# Ten years: longer than any retention, and far from the end of 64-bit microseconds.
LONGEST = 3650 * DAY

Duration = NewType("Duration", int)
"""Length of time in microseconds, written as text such as ``"10m"``."""

_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)\Z")


def duration_micros(text: str) -> Duration:
    """Return a text such as ``"250ms"``, ``"10m"`` or ``"30d"`` in us; else raise ValueError.

    Raises:
        ValueError: the text is no duration.
    """
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(text)
    return Duration(int(match[1]) * _UNITS[match[2]])


def duration_text(duration: Duration) -> str:
    """Return the duration in the largest unit that divides it, except that one day is ``24h``."""
    if duration == 0:
        return "0s"
    fitting = [unit for unit, length in _UNITS.items() if duration % length == 0]
    if duration == DAY:
        return "24h"
    return f"{duration // _UNITS[fitting[0]]}{fitting[0]}"


ListedValue = NewType("ListedValue", str)
"""Allow-listed attribute value: printable text in Unicode's composed form C."""

LONGEST_VALUE = 64
# Characters that are blank or invisible, though Unicode counts them as printable.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]"
    "|[\U000e0100-\U000e01ef]"
)


def listed_value(text: str) -> ListedValue:
    """Return the text in NFC; raise ValueError if it is empty, too long, unprintable or reserved.

    Refused are control characters, characters of direction or without width (Python does not
    print them), blanks at either end, a first character that joins the one before it, and names
    reserved by slicewatch.

    Raises:
        ValueError: the text cannot be listed.

    Example:
        >>> listed_value("Sa\u0303o Paulo") == "S\u00e3o Paulo"
        True
    """
    value = normalize("NFC", text)
    is_plain = value.isprintable() and not _INVISIBLE.search(value) and value == value.strip()
    if not is_plain or not 1 <= len(value) <= LONGEST_VALUE:
        raise ValueError(text)
    if combining(value[0]) or value.startswith("__"):
        raise ValueError(text)
    return ListedValue(value)


def host_of(listen: str) -> str:
    """Return the host of a :data:`Listen`, without the brackets of IPv6."""
    return listen.rpartition(":")[0].strip("[]")


def port_of(listen: str) -> int:
    """Return the port of a :data:`Listen`."""
    return int(listen.rpartition(":")[2])


class Secret:
    """Text that is never printed; only :meth:`reveal` returns it.

    ``file`` is the path that it was read from; None if the settings hold the text itself.
    """

    __slots__ = ("_text", "file")

    def __init__(self, text: str, file: str | None = None) -> None:
        self._text = text
        self.file = file

    def reveal(self) -> str:
        """Return the secret as plain text."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)


# Greedy up to the last @, so that a password with an unescaped slash or @ is masked as a whole.
# Any separator counts as the colon, so that a typing error does not show the password.
_USER_INFO = re.compile(r"://([\w.%+~-]*)[^\w.%+~/?@-](.*)@", re.DOTALL)
_QUERY_SECRET = re.compile(r"([?&;][^=&;]*(?:pass|secret|token|key)[^=&;]*=)[^&;]*", re.IGNORECASE)


class Url(str):
    """Database URL: a plain string for libraries, with its password masked in ``repr``."""

    __slots__ = ()

    @property
    def masked(self) -> str:
        """The URL with masked passwords."""
        text = _USER_INFO.sub(rf"://\1:{MASK}@", self)
        return _QUERY_SECRET.sub(rf"\1{MASK}", text)

    def __repr__(self) -> str:
        return repr(self.masked)


def _between(low: int, high: int) -> Meta:
    words = f"a whole number from {low} to {high}"
    return Meta(ge=low, le=high, description=words)


def _lasting(low: int, high: int = LONGEST) -> Meta:
    edges = f"from {duration_text(Duration(low))} to {duration_text(Duration(high))}"
    return Meta(ge=low, le=high, description=f'a duration such as "10s", "10m" or "30d", {edges}')


# \Z, not $: the dollar sign also matches before a final newline.
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z",
        description="a name: a letter or digit, then letters, digits, _ . : -, at most 64 in all",
    ),
]
AttributeName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_]{0,63}\Z",  # as in events: any other name would never come in
        description="an attribute name: a small letter, then small letters, digits, _, at most 64",
    ),
]
Value = Annotated[
    ListedValue,
    Meta(
        description=f"printable text of 1 to {LONGEST_VALUE} characters, without blanks at its ends"
        " and not beginning with __"
    ),
]
Edge = Annotated[
    float, Meta(ge=-1e9, le=1e9, description="a number from -1000000000 to 1000000000, such as 18")
]
Topic = Annotated[
    str,
    Meta(
        pattern=r"^(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z",
        description="a topic name: letters, digits, . _ -, at most 249",
    ),
]
Address = Annotated[
    str,
    Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}\Z",
        description='an address such as "localhost:9092"',
    ),
]
_PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4})"
Listen = Annotated[
    str,
    Meta(
        pattern=rf"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):{_PORT}\Z",
        description='an address with a port from 0 to 65535 such as "127.0.0.1:9095"',
    ),
]
Text = Annotated[str, Meta(pattern=r"\S", description="text that is not empty")]
Digest = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{64}\Z",
        description="the content hash of a probe set, as slicewatch audit prints it",
    ),
]
LocalFile = NewType("LocalFile", str)
"""Path of a file on this machine; absolute after the settings are loaded."""

File = Annotated[LocalFile, Meta(pattern=r"\S", description="the path of a file")]
ElsewhereFile = Annotated[str, Meta(pattern=r"\S", description="the path of a file")]
"""Path on another machine, passed on as written."""
WebUrl = Annotated[
    str,
    Meta(
        # No user:password@ and no query, which may hold tokens: everybody sees the address.
        pattern=r"^https?://[A-Za-z0-9._~:/%\[\]+-]+\Z",
        description='a web address without password and query, such as "https://monitor.example"',
    ),
]
_DAY = "|".join(WEEKDAYS)
Hours = Annotated[
    str,
    Meta(
        pattern=rf"^({_DAY})(-({_DAY}))? {TIME}-({TIME}|24:00)\Z",
        description='office hours such as "monday-friday 09:00-17:00"',
    ),
]
ALWAYS_QUIET = "always"
"""Quiet time of a router whose silence is never a fault."""
Quiet = Annotated[
    str,
    Meta(
        pattern=rf"^{ALWAYS_QUIET}\Z|{QUIET_TIME}",
        description='"always", or a quiet time such as "sunday", "daily 22:00-06:00" or'
        ' "2026-12-24..2026-12-26 12:00-24:00"',
    ),
]
Beginning = NewType("Beginning", str)
"""Place in a topic: one of ENDS, or the ISO text of a time with a zone."""
ENDS = ("earliest", "latest")
TimeZone = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9_+/-]{0,63}\Z",
        description='the name of a time zone such as "UTC" or "Europe/Berlin"',
    ),
]
DatabaseUrl = Annotated[Url, Meta(description='a database URL such as "sqlite:///slicewatch.db"')]

Count = Annotated[int, _between(1, 1_000_000)]
SmallCount = Annotated[int, _between(1, 1024)]
Score = Annotated[float, Meta(gt=0, lt=1, description="a score between 0 and 1, such as 0.70")]
AuditRate = Annotated[
    float, Meta(gt=0, le=1, description="a probability above 0 and up to 1, such as 0.5")
]
Divisor = Annotated[float, Meta(gt=0, le=1e9, description="a number above 0, such as 100")]
Limit = Annotated[Fraction, Meta(ge=0, le=1, description="a number from 0 to 1, such as 0.10")]
Ratio = Annotated[
    Fraction, Meta(gt=0, lt=1, description="a ratio above 0 and below 1, such as 0.80")
]
Share = Annotated[
    Fraction, Meta(gt=0, le=1, description="a share above 0 and up to 1, such as 0.95")
]

BiasLimit = Annotated[
    float, Meta(ge=-1000, le=1000, description="a number from -1000 to 1000, such as 0.10")
]
Drift = Annotated[float, Meta(gt=0, le=1000, description="a number above 0, such as 0.03")]
AnyDuration = Annotated[Duration, _lasting(0)]
"""Duration that may be zero: at once, or off."""
Interval = Annotated[Duration, _lasting(10 * MILLISECOND, DAY)]
"""Interval of a repeated action."""
Term = Annotated[Duration, _lasting(HOUR)]
SessionTimeout = Annotated[Duration, _lasting(6 * SECOND, 30 * MINUTE)]
"""Time of keeping or waiting for something."""
"""Session time-out of a group member, in the default range of brokers."""
