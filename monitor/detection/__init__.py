"""Sequential tests and drift detectors: state in arrays, event time passed in, no I/O."""

__all__ = ["arrays", "flip_test", "label_power"]
