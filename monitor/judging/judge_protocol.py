"""Protocol of a judge for its callers: endpoint, answer, and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class JudgeFailedError(Exception):
    """The judge gave no answer; the text is one of a few, and quotes nothing."""


class Judge(Protocol):
    """Language model that is asked for findings."""

    @property
    def name(self) -> str:
        """Return the model's name."""

    def ask(self, instructions: str, question: str) -> str:
        """Return the judge's answer.

        Raises:
            JudgeFailedError: there is no answer.
        """


class BudgetSpentError(Exception):
    """The day's budget is spent: the output is judged tomorrow."""


class StoppedError(Exception):
    """The worker is to end: the output is judged after the next start."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and model to ask.

    Attributes:
        url: base address, with its version, such as ``http://localhost:8000/v1``.
        model: name of the model at the endpoint.
        api_key: empty where none is needed.
        timeout: seconds for one answer.
        tries: requests per question, while the endpoint is away, slow or busy.
    """

    url: str
    model: str
    api_key: str = ""
    timeout: float = 60.0
    tries: int = 5
