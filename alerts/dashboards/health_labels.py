"""Panels of the labels behind the rates, and of causes that distort counts."""

from __future__ import annotations

from alerts.dashboards.model import (
    Column,
    Panel,
    PanelKind,
    Query,
    Unit,
)
from alerts.dashboards.parts import (
    FLAG,
    NONE_IS_GOOD,
    WITHHELD,
    share,
    table,
    tall_lines,
)
from alerts.dashboards.promql import decided, increase, newest
from alerts.exposition import catalogue

_QUANTILES = {"0.5": "half", "0.9": "nine of ten", "0.99": "99 of 100"}


def labels(complete: float) -> tuple[Panel, ...]:
    """Return panels on labels: completeness, delay, sampling; ``complete`` is drawn as a limit.

    Args:
        complete: completeness of a mature cohort, from the settings.
    """
    delay = f'{catalogue.LABEL_DELAY.name}_bucket{{job="$job"}}'
    by_bucket = f"sum by (le) (max by (le, instance) (increase({delay}[1d])))"
    totals = 'group_by="", slice=""'
    return (
        tall_lines(
            3,
            "last_label",
            "How long ago a label last met its decision",
            "By the clock, to five minutes. The windows of TPR and FPR do not advance without"
            " labels.",
            Query(f"time() - {newest(catalogue.LABEL_JOINED, ())}", "last label"),
            unit=Unit.SECONDS,
        ),
        Panel(
            4,
            "completeness",
            "Completeness of labels",
            "Labels received over labels requested: of all decisions of the contract (the lowest of"
            " all routes and audit rates, in the contract's window), and of everything that is"
            " labelled. The line is the share at which a cohort counts as complete, as the settings"
            f" have it. {WITHHELD}",
            queries=(
                Query(
                    decided(catalogue.COMPLETENESS, ("contract",), "contract", where=totals),
                    "{{contract}}",
                ),
                Query(newest(catalogue.LABEL_COMPLETENESS, ()), "everything"),
            ),
            unit=Unit.SHARE,
            width=8,
            highest=1,
            limit=complete,
        ),
        tall_lines(
            5,
            "coverage",
            "Share of decisions that are labelled",
            "Labelled decisions over all decisions of production; probes are in neither. It is low"
            " where little of what is served is audited, and that is no fault.",
            Query(newest(catalogue.LABEL_COVERAGE, ()), "labelled"),
            unit=Unit.SHARE,
        ),
        tall_lines(
            6,
            "delays",
            "How long labels take",
            "From a decision to its label, of the labels of the last day: half of them took less"
            " than the lowest line. A hundred labels at a time.",
            *(
                Query(f"histogram_quantile({quantile}, {by_bucket})", words)
                for quantile, words in _QUANTILES.items()
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            7,
            "labels_at_fault",
            "Slices whose labels are missing or sampled otherwise",
            "Labels of a slice and route that do not come while those of other slices do, or that"
            " are requested less (too_few) or more often (too_many) than audit_p says. `withheld`"
            f" is a slice that may not be shown. {NONE_IS_GOOD}",
            PanelKind.TABLE,
            (
                table(
                    "1000 * "
                    + newest(
                        catalogue.LABELS_SINCE, ("group_by", "slice", "route", "fault"), "contract"
                    )
                ),
                table(
                    newest(
                        catalogue.LABELS_SHARE, ("group_by", "slice", "route", "fault"), "contract"
                    )
                ),
            ),
            width=8,
            columns=(
                Column("slice", "slice"),
                Column("route", "route"),
                Column("fault", "fault"),
                Column("Value #A", "since", Unit.INSTANT),
                share("Value #B", "share", 70),
            ),
            sort="since",
        ),
        Panel(
            8,
            "requests",
            "Faults of the sampler",
            "Routes and audit rates whose labels are surely requested less or more often than the"
            f" router reports. {NONE_IS_GOOD}",
            PanelKind.TABLE,
            (
                table(
                    "1000 * "
                    + newest(
                        catalogue.REQUEST_FAULT_AT, ("route", "audit_rate", "fault"), "contract"
                    )
                ),
                table(
                    newest(catalogue.REQUEST_FAULTS, ("route", "audit_rate", "fault"), "contract")
                ),
            ),
            width=8,
            columns=(
                Column("route", "route"),
                Column("audit_rate", "audit rate"),
                Column("fault", "fault"),
                Column("Value #A", "last", Unit.INSTANT),
                Column("Value #B", "times", Unit.COUNT, decimals=0),
            ),
            sort="last",
        ),
        Panel(
            9,
            "agreement",
            "Agreement of reviewers",
            "Cohen's kappa of two reviewers of one decision, -1 to 1, by slice, in the contract's"
            f" window; dots are a bound that is shown instead. {WITHHELD}",
            PanelKind.TABLE,
            tuple(
                table(newest(family, ("group_by", "slice"), "contract"))
                for family in (*catalogue.AGREEMENT.families, catalogue.AGREEMENT_AT_LEAST)
            ),
            width=8,
            columns=(
                Column("group_by", "group_by"),
                Column("slice", "slice"),
                Column("Value #A", "kappa", Unit.COUNT, decimals=2),
                Column("Value #B", "from", Unit.COUNT, decimals=2),
                Column("Value #C", "to", Unit.COUNT, decimals=2),
                Column("Value #D", "at least", Unit.COUNT, decimals=2),
            ),
        ),
        tall_lines(
            10,
            "waiting",
            "Decisions and labels that wait for each other",
            "Decisions that are kept so that a label can find them, by the hundred, and labels that"
            " came before their decision.",
            Query(newest(catalogue.PENDING, ()), "decisions"),
            Query(newest(catalogue.WAITING, ()), "labels"),
        ),
        tall_lines(
            11,
            "unmatched",
            "Labels that found no decision",
            "Within the last day, by reason, in whole hundreds.",
            Query(
                increase(catalogue.UNMATCHED, ["reason"], "1d", split=["topic", "partition"]),
                "{{reason}}",
            ),
        ),
    )


def copies() -> tuple[Panel, ...]:
    """Return the panels on duplicate and dependent decisions, excluded data and slice spread."""
    return (
        tall_lines(
            12,
            "duplicates",
            "Decisions that arrive more than once",
            "Repeated ids among decisions with a label requested, by route. Copies that are"
            " recognised are counted once.",
            Query(newest(catalogue.DUPLICATES, ["route"]), "{{route}}"),
            unit=Unit.SHARE,
        ),
        tall_lines(
            13,
            "counted_again",
            "Copies that were counted again",
            "Within the last day, by topic and kind, rounded up to hundreds: cross_partition (the"
            " first was in another partition) or late (longer ago than dedupe.window).",
            Query(
                increase(catalogue.COUNTED_AGAIN, ["topic", "kind"], "1d", split=["partition"]),
                "{{topic}} {{kind}}",
            ),
        ),
        tall_lines(
            14,
            "clusters",
            "Decisions that may depend on each other",
            "`setting` is detection.cluster_size, `used` what the evidence of the newest cohort was"
            " divided by, because of the largest unit of its day. `repeated` is 1 while decisions"
            " without a unit repeat each other far more often than by chance.",
            Query(newest(catalogue.CLUSTER_SIZE, ["size"]), "{{size}}"),
            Query(newest(catalogue.REPEATED, ()), "repeated"),
        ),
        Panel(
            15,
            "excluded",
            "Windows of which something is left out",
            "By window: 1 while some of it was declared to be bad, or was never complete.",
            PanelKind.STATES,
            (Query(newest(catalogue.EXCLUDED, ["window"], "contract"), "{{window}}"),),
            width=8,
            height=6,
            mappings=FLAG,
        ),
        Panel(
            16,
            "spread",
            "Worst to best slice",
            "By metric and group-by, in the contract's window: described, never tested. Of many"
            " equal slices, two always differ.",
            queries=(
                Query(
                    decided(catalogue.SPREAD, ("metric", "group_by"), "contract"),
                    "{{metric}} {{group_by}}",
                ),
            ),
            unit=Unit.SHARE,
            width=8,
            height=6,
            lowest=0,
        ),
    )
