"""A judge, as whoever asks it sees it: where it is, what it says, and why it says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class JudgeFailedError(Exception):
    """The judge gave no answer; the text is one of a few, and quotes nothing."""


class Judge(Protocol):
    """A language model that is asked."""

    @property
    def name(self) -> str:
        """Its name."""

    def ask(self, instructions: str, question: str) -> str:
        """Its answer.

        Raises:
            JudgeFailedError: there is none.
        """


class BudgetSpentError(Exception):
    """Nothing more may be asked today: the output is judged tomorrow."""


class StoppedError(Exception):
    """The worker is to end: the output is judged after the next start."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and model to ask.

    Attributes:
        url: base address, with its version, such as ``http://localhost:8000/v1``.
        model: by its name there.
        api_key: empty where none is needed.
        timeout: seconds for one answer.
        tries: of one request, while the endpoint is away, slow or busy.
    """

    url: str
    model: str
    api_key: str = ""
    timeout: float = 60.0
    tries: int = 5
