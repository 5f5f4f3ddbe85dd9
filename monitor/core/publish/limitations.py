"""Register of known limitations.

The type of the settings also has their checks, which the API's schema would show.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limitation:
    """Known limitation of the use case or of the measurement, as its owner registered it.

    Attributes:
        text: what is limited, where, and what the numbers must not be used for.
        owner: who answers for it.
    """

    text: str
    owner: str
