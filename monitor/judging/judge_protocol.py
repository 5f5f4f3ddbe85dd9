"""Protocol of a judge for its callers: endpoint, answer, and failures."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Protocol


class JudgeFailedError(Exception):
    """Error for a question without an answer; the text quotes neither question nor answer.

    The output may be at fault, or the endpoint: a question about another text tells which.
    """


class JudgeBusyError(JudgeFailedError):
    """Error for a question that an endpoint had no room for: a status of overload or of a fault."""


class JudgeRefusedError(JudgeFailedError):
    """Error for a question that the endpoint refused with an HTTP status.

    Attributes:
        remedy: what a person must mend if the endpoint refuses every question.
    """

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


class JudgeAwayError(Exception):
    """Signal that the endpoint answers nobody now; outputs wait, and none has failed."""


class Judge(Protocol):
    """Language model that answers questions about a text with findings."""

    @property
    def name(self) -> str:
        """Return the model's name."""

    def ask(self, instructions: str, question: str) -> str:
        """Send system and user message; return the text of the model's answer.

        Raises:
            JudgeFailedError: there is no answer.
            BudgetSpentError: the day's budget is spent.
        """


class BudgetSpentError(JudgeAwayError):
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
        timeout: seconds for one whole answer.
        tries: requests per question, while the endpoint is away, slow or busy.
        longest_answer: most tokens of an answer, with what a reasoning model thinks.
    """

    url: str
    model: str
    api_key: str = ""
    timeout: float = 60.0
    tries: int = 5
    longest_answer: int = 4_000


@dataclass(slots=True)
class JudgeUse:
    """Totals of what one judge was asked since the start of the process.

    Attributes:
        requests: requests that were sent.
        seconds: seconds that they took.
        tokens: tokens as the endpoint counts them.
    """

    requests: int = 0
    seconds: float = 0.0
    tokens: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, seconds: float, tokens: int) -> None:
        """Add one request; may be called from several threads."""
        with self._lock:
            self.requests += 1
            self.seconds += seconds
            self.tokens += tokens
