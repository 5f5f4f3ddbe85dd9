"""Texts of alerts that differ by metric, as Go templates that choose by the label ``metric``."""

from __future__ import annotations

from collections.abc import Callable

from monitor.core.metric import LIMITED, Metric


def metric_texts() -> dict[str, str]:
    """Return the name, subject, verb and first step of each metric, by placeholder."""
    lower_is_worse = " ".join(f'(eq $labels.metric "{m}")' for m in LIMITED if m.harmed_by_less)
    return {
        "metric": _chosen(lambda metric: metric.row.name),
        "subject": _chosen(lambda metric: metric.row.subject),
        "verb": _chosen(lambda metric: metric.row.verb),
        "first_step": "First: " + _chosen(lambda metric: metric.row.first_step),
        "harmed_by_less": f"or {lower_is_worse}",
    }


def _chosen(text: Callable[[Metric], str]) -> str:
    """Return a template that chooses the text of an alert's metric."""
    *metrics, last = LIMITED
    choices = (f'if eq $labels.metric "{metric}" }}}}{text(metric)}' for metric in metrics)
    return "{{ " + "{{ else ".join(choices) + "{{ else }}" + text(last) + "{{ end }}"
