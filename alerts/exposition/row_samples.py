"""Samples of one row of the page: a slice of a group-by, or the total, in one window."""

from __future__ import annotations

from alerts.exposition.catalogue import FAMILIES
from alerts.exposition.samples import Blocks, Samples, label_text
from monitor.core.contract import Verdict
from monitor.core.publish.each_row import RowPlace
from monitor.core.publish.snapshot import ShownGap, ShownRate, SliceRow
from monitor.core.state import State
from monitor.core.time import SECOND, WEEK

_SLICE = FAMILIES["slice_rate_ratio"].labels
_COMPARISON = FAMILIES["slice_gap_ratio"].labels
_BAND = FAMILIES["slice_calibration_ratio"].labels


def row_blocks(place: RowPlace, row: SliceRow) -> Blocks:
    """Return the lines of one row, by family."""
    samples = Samples()
    samples.put("slice_completeness_ratio", row.completeness, *place.cell)
    if place.decides:
        for metric, state in sorted(row.states.items()):
            labels = (place.contract, metric, *place.where)
            _put_one_of(samples, "slice_state", labels, state)
        _put_findings(samples, place, row)
        _put_diagnosis(samples, place, row)
    _put_rates(samples, place, row)
    return samples.blocks()


def _put_rates(samples: Samples, place: RowPlace, row: SliceRow) -> None:
    """Add rates, gaps and score bands of a row; verdicts only where its window decides."""
    contract, *slice_labels = place.cell
    for metric, rate in sorted(row.rates.items()):
        text = label_text(_SLICE, (contract, metric, *slice_labels))
        _add_rate(samples, text, rate)
    for metric, gap in sorted(row.gaps.items()):
        labels = (contract, metric, *slice_labels, gap.reference)
        _add_gap(samples, label_text(_COMPARISON, labels), gap)
        if place.decides and gap.verdict is not None:
            _put_one_of(samples, "slice_verdict", labels, gap.verdict)
    samples.put_by_metric("slice_as_labelled_ratio", row.as_labelled, contract, *slice_labels)
    for band in row.calibration:
        if band.rate is not None:
            text = label_text(_BAND, (*place.cell, band.band))
            samples.add_interval("slice_calibration", text, band.rate)
            samples.add("slice_calibration_support_band", text, band.rate.support)


def _put_findings(samples: Samples, place: RowPlace, row: SliceRow) -> None:
    """Add breaches, evidence, detectable gaps, needed labels and findings of a row."""
    contract, *slice_labels = place.cell
    since = {metric: at / SECOND for metric, at in row.breach_since.items()}
    samples.put_by_metric("slice_breach_since_timestamp_seconds", since, contract, *slice_labels)
    samples.put_by_metric("slice_evidence_level", row.evidence, contract, *slice_labels)
    samples.put_by_metric(
        "slice_detectable_gap_ratio", row.detectable_gaps, contract, *slice_labels
    )
    needs = {metric: weeks * WEEK / SECOND for metric, weeks in row.label_needs.items()}
    samples.put_by_metric("slice_label_need_seconds", needs, contract, *slice_labels)
    for finding in row.noted:
        metric = finding.metric or ""
        labels = (contract, metric, *slice_labels, finding.annotation)
        samples.put("slice_findings", finding.count, *labels)
        samples.put("slice_finding_timestamp_seconds", finding.latest / SECOND, *labels)


def _put_diagnosis(samples: Samples, place: RowPlace, row: SliceRow) -> None:
    """Add the stage behind a breach, and the reviewers' agreement, of a row."""
    contract, *slice_labels = place.cell
    for metric, shown in sorted(row.stages.items()):
        stage = (shown.stage, shown.share or "")
        samples.put("slice_stage_info", 1, contract, metric, *slice_labels, *stage)
    if (agreement := row.agreement) is not None:
        samples.put("slice_reviewer_agreement_ratio", agreement.kappa, *place.cell)
        samples.put("slice_reviewer_agreement_lower_ratio", agreement.lower, *place.cell)
        samples.put("slice_reviewer_agreement_upper_ratio", agreement.upper, *place.cell)
        samples.put("slice_reviewer_agreement_at_least_ratio", agreement.at_least, *place.cell)


def _put_one_of(
    samples: Samples, name: str, labels: tuple[str, ...], value: State | Verdict
) -> None:
    """Add a sample for each possible value: 1 for the true one, 0 for the others."""
    *names, last = FAMILIES[name].labels
    before = label_text(tuple(names), labels)[:-1]
    for possible in type(value):
        samples.add(name, f'{before},{last}="{possible}"}}', possible is value)


def _add_rate(samples: Samples, labels: str, rate: ShownRate) -> None:
    samples.add_interval("slice_rate", labels, rate)
    samples.add("slice_rate_at_least_ratio", labels, rate.at_least)
    samples.add("slice_rate_at_most_ratio", labels, rate.at_most)
    samples.add("slice_support_band", labels, rate.support)


def _add_gap(samples: Samples, labels: str, gap: ShownGap) -> None:
    samples.add_interval("slice_gap", labels, gap)
    samples.add("slice_relative_rate_ratio", labels, gap.ratio)
    samples.add("slice_relative_rate_lower_ratio", labels, gap.ratio_lower)
    samples.add("slice_relative_rate_upper_ratio", labels, gap.ratio_upper)
