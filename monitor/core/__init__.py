"""Pure functions and frozen results on numpy arrays: no clock, no logging, no input or output."""

__all__ = [
    "bias_scores",
    "blindness",
    "contract",
    "expected_arrivals",
    "intervals",
    "metric",
    "plain_text",
    "publish",
    "quiet_times",
    "state",
    "time",
]
