"""The evaluator: folds deltas into panes, computes and publishes Snapshots."""

__all__ = ["backtest", "clusters", "evaluator", "policy", "probes"]
