"""Panels of the probe sets: matched pairs of synthetic requests."""

from __future__ import annotations

from alerts.dashboards.model import (
    Panel,
    PanelKind,
    Query,
    Unit,
)
from alerts.dashboards.parts import (
    FLAG,
    limit_look,
    tall_lines,
)
from alerts.dashboards.promql import increase, newest, series
from alerts.exposition import catalogue

_CASES = (
    "Synthetic test requests, in no production rate; a flip is a case to investigate, not a"
    " disparity of a population."
)
_PAIR = ("probe_set", "variant", "direction", "stage")


def probes() -> tuple[Panel, ...]:
    """Return panels on probe pairs: flips, scores, age, and comparisons that were impossible."""
    incomplete = increase(catalogue.PROBE_INCOMPLETE, ["probe_set"], "1d")
    complete = increase(catalogue.PROBE_PAIRS, ["probe_set"], "1d")
    flipped = increase(catalogue.PROBE_FLIPS, ["probe_set"], "1d", split=_PAIR[1:])
    flips = f"{flipped}\n/ ({complete} > 0)"
    behind = (
        f"max({series(catalogue.WATERMARK)}) - on () group_right ()"
        f" {newest(catalogue.PROBE_COVERED, ['probe_set'])}"
    )
    return (
        Panel(
            18,
            "probe_page",
            "Probe sets that page",
            "By direction: 1 while the sequential test says that variants are held back, or served,"
            f" more often than their reference. {_CASES}",
            PanelKind.STATES,
            (
                Query(
                    newest(catalogue.PROBE_PAGING, ("probe_set", "direction")),
                    "{{probe_set}} {{direction}}",
                ),
            ),
            width=8,
            mappings=FLAG,
        ),
        tall_lines(
            19,
            "probe_flips",
            "Pairs that flip now",
            "Of the newest comparison of each pair and variant, those that took different routes,"
            f" by the stage of the router at which they part. {_CASES}",
            Query(
                f"{newest(catalogue.PROBE_FLIPPING, _PAIR)} > 0",
                "{{probe_set}} {{variant}} {{direction}} ({{stage}})",
            ),
        ),
        tall_lines(
            20,
            "flip_rate",
            "Share of comparisons that flipped, of the last day",
            f"The limit is what the settings declare for each set. {_CASES}",
            Query(flips, "{{probe_set}}"),
            Query(newest(catalogue.PROBE_MAX_FLIP, ["probe_set"]), "limit of {{probe_set}}"),
            unit=Unit.SHARE,
            looks=(limit_look("/^limit of/"),),
        ),
        Panel(
            47,
            "bias_scores",
            "Evaluation scores",
            "The newest score of each declared dimension of model evaluations, as it was sent,"
            f" beside its limit. It is of a probe set, never of traffic. {_CASES}",
            queries=(
                Query(
                    newest(catalogue.BIAS_SCORE, ["dimension", "model"]), "{{dimension}} {{model}}"
                ),
                Query(newest(catalogue.BIAS_LIMIT, ["dimension"]), "limit of {{dimension}}"),
                Query(
                    f"{newest(catalogue.BIAS_WORSE_BY, ['dimension'])} > 0",
                    "{{dimension}} is worse than the last time by",
                ),
            ),
            width=8,
            looks=(limit_look("/^limit of/"),),
        ),
        tall_lines(
            21,
            "probe_age",
            "How long ago every pair was compared",
            "In event time. The cadence is what the settings declare for each set.",
            Query(behind, "{{probe_set}}"),
            Query(newest(catalogue.PROBE_CADENCE, ["probe_set"]), "cadence of {{probe_set}}"),
            unit=Unit.SECONDS,
            looks=(limit_look("/^cadence of/"),),
        ),
        tall_lines(
            22,
            "probe_incomplete",
            "Share of comparisons that were impossible, of the last day",
            "Some variants of a pair came, and others did not, or late: nothing is known about"
            " these pairs.",
            Query(f"{incomplete}\n/ ({incomplete} + {complete} > 0)", "{{probe_set}}"),
            unit=Unit.SHARE,
        ),
        tall_lines(
            23,
            "probes_unsigned",
            "Probes that are none",
            "Within the last day: `unsigned` are counted as production (rounded up to hundreds),"
            " `undeclared` are compared with nothing.",
            Query(increase(catalogue.PROBES_UNSIGNED, (), "1d", split=["instance"]), "unsigned"),
            Query(
                increase(catalogue.PROBES_UNDECLARED, (), "1d", split=["instance"]),
                "undeclared",
            ),
        ),
    )
