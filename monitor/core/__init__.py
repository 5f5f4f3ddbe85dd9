"""Pure functions and frozen results on numpy arrays: no clock, no logging, no input or output."""

__all__ = ["bias_scores", "blindness", "contract", "intervals", "plain_text", "publish", "time"]
