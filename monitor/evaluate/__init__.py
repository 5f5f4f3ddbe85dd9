"""The evaluator: folds deltas into panes, computes and publishes Snapshots."""
