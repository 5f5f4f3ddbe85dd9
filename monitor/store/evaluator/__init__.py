"""Tables that the evaluator alone writes, behind its lease."""
