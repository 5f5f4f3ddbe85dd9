"""A judge behind an endpoint that speaks the OpenAI protocol."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import openai

from monitor.judging.bounded_client import BoundedClient
from monitor.judging.findings import answer_schema
from monitor.judging.judge_protocol import (
    BudgetSpentError,
    Endpoint,
    JudgeBusyError,
    JudgeFailedError,
    JudgeRefusedError,
    JudgeUse,
    StoppedError,
)
from monitor.judging.request_budget import RequestBudget

log = logging.getLogger("slicewatch.judge")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
_BUSY = frozenset((402, 408, 409, 425, 429))
"""HTTP statuses besides 5xx that pass with time: credit, quota, rate, conflict."""
_REFUSABLE = {
    "temperature": ("temperature",),
    "response_format": ("response_format", "json_schema"),
    "max_completion_tokens": ("max_completion_tokens",),
}
"""Parameters that some endpoints refuse, with the words by which they name them."""


class OpenAIJudge:
    """Judge behind an OpenAI endpoint, which retries failed requests within a budget.

    Every try is a request of its own, taken from the budget, since the endpoint may bill it.

    Args:
        endpoint: address and model.
        categories: names of categories that a finding may have.
        budget: budget of this worker.
        wait: waits for the given seconds; returns True when the worker is to end.

    Attributes:
        use: totals of requests, seconds and tokens.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        categories: Iterable[str],
        budget: RequestBudget,
        wait: Callable[[float], bool],
    ) -> None:
        self.use = JudgeUse()
        self._endpoint = endpoint
        self._budget = budget
        self._wait = wait
        schema = {"name": "findings", "strict": True, "schema": answer_schema(categories)}
        self._options: dict[str, Any] = {
            "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": schema},
            "max_completion_tokens": endpoint.longest_answer,
        }

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
        """
        messages: Any = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": question},
        ]
        pause = FIRST_PAUSE
        failure = JudgeFailedError("the judge was not asked")
        for left in range(self._endpoint.tries - 1, -1, -1):
            try:
                return self._answer(messages)
            except openai.APITimeoutError:
                failure = JudgeFailedError("the judge did not answer in time")
            except openai.APIConnectionError:
                failure = JudgeFailedError("the judge cannot be reached")
            except openai.APIStatusError as error:
                failure = self._status_failure(error.status_code)
            except (openai.OpenAIError, ValueError, TypeError, AttributeError, RecursionError):
                failure = JudgeFailedError("the judge's answer is not of the protocol")
            if isinstance(failure, JudgeRefusedError):
                break
            if left and self._wait(pause):
                raise StoppedError
            pause = min(2 * pause, LONGEST_PAUSE)
        raise failure

    def _answer(self, messages: Any) -> str:
        """Ask and return the answer's text; an error if it was cut off, filtered or refused."""
        (choice, *_) = self._completion(messages).choices
        if choice.finish_reason == "length":
            longest = self._endpoint.longest_answer
            raise JudgeFailedError(f"the judge's answer was cut off at {longest} tokens")
        if choice.finish_reason == "content_filter":
            raise JudgeFailedError("a content filter stopped the judge's answer")
        if choice.message.refusal or not choice.message.content:
            raise JudgeFailedError("the judge refused to answer")
        return str(choice.message.content)

    def _completion(self, messages: Any) -> Any:
        """Send one request; drop a parameter that the endpoint refuses, and send it once more."""
        if not self._budget.take():
            raise BudgetSpentError(
                "the day's budget is spent; raise judge.requests_per_day, or wait until 00:00 UTC"
            )
        options, tokens, start = self._options, 0, time.monotonic()
        try:
            answer = self._create(messages, options)
            tokens = max(0, answer.usage.total_tokens) if answer.usage is not None else 0
        except openai.APIStatusError as error:
            if not self._may_ask_without(options, error):
                raise
            return self._completion(messages)
        finally:
            self.use.add(time.monotonic() - start, tokens)
        return answer

    def _create(self, messages: Any, options: dict[str, Any]) -> Any:
        """Send one request, without retries, and end it when its time is over."""
        with BoundedClient() as http:
            client = openai.OpenAI(
                base_url=self._endpoint.url,
                api_key=self._endpoint.api_key or "none",
                timeout=self._endpoint.timeout,
                max_retries=0,  # we retry ourselves: the library's retries would be in no budget
                http_client=http,
            )
            create = client.chat.completions.create  # loads modules, which takes its time
            with http.ended_after(self._endpoint.timeout):
                try:
                    return create(model=self._endpoint.model, messages=messages, **options)
                except openai.APIConnectionError as error:
                    if http.is_closed:
                        raise openai.APITimeoutError(error.request) from None
                    raise

    def _may_ask_without(self, options: dict[str, Any], error: openai.APIStatusError) -> bool:
        """Drop the parameter that a refusal names; return True if there is less to refuse now."""
        text = f"{error.message} {error.body}"
        names = [
            name
            for name, words in _REFUSABLE.items()
            if name in options and any(word in text for word in words)
        ]
        if error.status_code not in (400, 422) or not names:
            return False
        if options is self._options:
            kept = {name: value for name, value in options.items() if name not in names}
            if "max_completion_tokens" in names:  # servers of an older protocol
                kept["max_tokens"] = self._endpoint.longest_answer
            self._options = kept
            log.warning("the judge is asked without what it refuses", extra={"parameters": names})
        return True

    def _status_failure(self, status: int) -> JudgeFailedError:
        if status in _BUSY or status >= httpx.codes.INTERNAL_SERVER_ERROR:
            return JudgeBusyError(f"the judge is not available (HTTP {status})")
        return JudgeRefusedError(
            f"the judge refused the request (HTTP {status})",
            f"judge.url: the endpoint refuses model {self._endpoint.model} (HTTP {status}); check"
            " judge.url, judge.model and judge.api_key",
        )
