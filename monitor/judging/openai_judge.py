"""A judge behind an endpoint that speaks the OpenAI protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import openai

from monitor.errors import SlicewatchError
from monitor.judging.findings import answer_schema
from monitor.judging.judge_protocol import (
    BudgetSpentError,
    Endpoint,
    JudgeFailedError,
    StoppedError,
)
from monitor.judging.request_budget import RequestBudget

LONGEST_ANSWER = 2_000
"""Most tokens of an answer: about forty findings."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class OpenAIJudge:
    """Judge behind an OpenAI endpoint, which retries failed requests within a budget.

    Every try is a request of its own, taken from the budget, since the endpoint may bill it.

    Args:
        endpoint: address and model.
        categories: names of categories that a finding may have.
        budget: budget of this worker.
        wait: waits for the given seconds; returns True when the worker is to end.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        categories: Iterable[str],
        budget: RequestBudget,
        wait: Callable[[float], bool],
    ) -> None:
        self._endpoint = endpoint
        self._budget = budget
        self._wait = wait
        schema = {"name": "findings", "strict": True, "schema": answer_schema(categories)}
        self._format: Any = {"type": "json_schema", "json_schema": schema}
        # We retry ourselves: the library's retries would be in no budget.
        self._client = openai.OpenAI(
            base_url=endpoint.url,
            api_key=endpoint.api_key or "none",
            timeout=endpoint.timeout,
            max_retries=0,
        )

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._endpoint.model

    def ask(self, instructions: str, question: str) -> str:
        """Return the model's answer as text; each try is counted in the budget.

        Raises:
            JudgeFailedError: the endpoint gave no answer in all tries, or a part of one.
            BudgetSpentError: the day's budget is spent.
            StoppedError: the worker is to end.
            SlicewatchError: the endpoint refuses the model, the key or the request itself.
        """
        pause = FIRST_PAUSE
        for left in range(self._endpoint.tries - 1, -1, -1):
            if not self._budget.take():
                raise BudgetSpentError
            try:
                return self._answer(instructions, question)
            except openai.APITimeoutError:
                why = "the judge did not answer in time"
            except openai.APIConnectionError:
                why = "the judge cannot be reached"
            except (openai.RateLimitError, openai.InternalServerError) as error:
                why = f"the judge is not available (HTTP {error.status_code})"
            except openai.APIStatusError as error:
                raise _refusal_error(error, self._endpoint) from None
            except (openai.OpenAIError, ValueError, TypeError, AttributeError):
                why = "the judge's answer is not of the protocol"
            if left and self._wait(pause):
                raise StoppedError
            pause = min(2 * pause, LONGEST_PAUSE)
        raise JudgeFailedError(why)

    def _answer(self, instructions: str, question: str) -> str:
        answer = self._client.chat.completions.create(
            model=self._endpoint.model,
            messages=[
                {"role": "system", "content": instructions},
                {"role": "user", "content": question},
            ],
            response_format=self._format,
            temperature=0,
            max_completion_tokens=LONGEST_ANSWER,
        )
        if answer.usage is not None:
            self._budget.add_tokens(max(0, answer.usage.total_tokens))
        (choice, *_) = answer.choices
        if choice.finish_reason == "length":
            raise JudgeFailedError("the judge's answer was cut off")
        if choice.message.refusal or not choice.message.content:
            raise JudgeFailedError("the judge refused to answer")
        return choice.message.content


def _refusal_error(error: openai.APIStatusError, endpoint: Endpoint) -> Exception:
    """Return JudgeFailedError for HTTP 400, 413 and 422, else a SlicewatchError."""
    if error.status_code in (400, 413, 422):
        return JudgeFailedError(f"the judge refused the request (HTTP {error.status_code})")
    return SlicewatchError(
        f"judge.url: the endpoint refuses model {endpoint.model} (HTTP {error.status_code}); check"
        " judge.url, judge.model and judge.api_key"
    )
