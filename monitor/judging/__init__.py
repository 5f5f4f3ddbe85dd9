"""Findings of bias in texts that a model wrote, by a language model as the judge.

A finding is a signal for people to look at, beside the routing metrics. It is no verdict on a
model, and no reliable probability, since the judge's confidence is not calibrated.
"""

__all__ = [
    "categories", "judge_metrics", "judge_protocol", "kafka_stream", "openai_judge",
    "output_events", "printed_outputs", "prompt", "request_budget", "worker",
]  # fmt: skip
