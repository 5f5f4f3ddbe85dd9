"""Protocol of a judge for its callers: endpoint, answer, and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class JudgeFailedError(Exception):
    """Error for a question without an answer; the text quotes neither question nor answer."""


class Judge(Protocol):
    """Language model that answers questions about a text with findings."""

    @property
    def name(self) -> str:
        """Return the model's name."""

    def ask(self, instructions: str, question: str) -> str:
        """Send system and user message; return the text of the model's answer.

        Raises:
            JudgeFailedError: there is no answer.
        """


class BudgetSpentError(Exception):
    """Signal that today's budget is spent; the output is to be judged tomorrow."""


class StoppedError(Exception):
    """Signal that the worker must end; the output is judged after the next start."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address, model and credentials of a judge, with the limits on waiting for an answer.

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
