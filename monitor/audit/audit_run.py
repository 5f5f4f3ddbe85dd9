"""Run of an audit: turn results, settings and a sign-off into one report.

Regression pairs and held-out pairs are two parts, and are never added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date, timedelta

from monitor.audit.audit_report import (
    HELD_OUT,
    REGRESSION,
    AuditReport,
    Check,
    Comparison,
    Part,
    Run,
    WhatIfLine,
)
from monitor.audit.contract_checks import (
    baseline_checks,
    contract_checks,
    led_by_primary,
    support_checks,
)
from monitor.audit.decision import Signed, advice, decide, first_day, lost_or_spoilt, unexplained
from monitor.audit.flip_counts import RunSide, broken, compare_runs, flip_counts, shown_flips
from monitor.audit.inputs import (
    Compared,
    Excluded,
    Pair,
    Results,
    Row,
    RunVersions,
    digest,
    results_digest,
)
from monitor.audit.matching import comparisons, matched
from monitor.audit.record_files import field_name, problem
from monitor.audit.sign_off import SignOff
from monitor.audit.slices import (
    GroupSlices,
    audit_coding,
    calibration_lines,
    lines_of,
    slices_of,
    value_of,
    without_gate,
)
from monitor.audit.what_if import what_if
from monitor.core.contract import COMPLEMENT, Contract
from monitor.core.counts.cells import OTHER, parse_atom
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.tables.bands import at_least
from monitor.core.time import SECOND
from monitor.errors import AuditError
from monitor.settings import Settings
from monitor.settings.check_use_cases import MIN_K
from monitor.settings.problems import shown
from monitor.settings.sections import UseCase
from monitor.version import program_version

_BASELINE, _CANDIDATE = "baseline", "candidate"


def audit(
    results: Results,
    settings: Settings,
    *,
    today: date,
    use_case: str | None = None,
    candidate: Results | None = None,
    sign_off: SignOff | None = None,
) -> AuditReport:
    """Audit a router's results on a set, or a candidate's against a baseline's; return the report.

    A pair that is not comparable in one of the two runs is compared in neither.

    Args:
        results: results of the router; of the baseline if there is a candidate.
        settings: attributes, score bands, and the contract.
        today: day of the release decision.
        use_case: name of the use case whose contract applies; None if there is only one.
        candidate: results on the same set; the decision is then about them.
        sign_off: signatures for requirements that no run measures.

    Raises:
        AuditError: settings, set and candidate do not fit together.
    """
    case = use_case_of(settings, use_case)
    contract = contract_of(case, synthetic=results.probe_set.synthetic)
    audit_run = _AuditRun(contract, audit_coding(settings.coding))
    results_by_title = (
        {_BASELINE: results} if candidate is None else _results_by_title(results, candidate)
    )
    for run_results in results_by_title.values():
        check_listed(run_results, audit_run.coding, contract)
    pairs, excluded = _comparable_pairs(results_by_title)
    runs = {
        title: audit_run.run(title, run_results, pairs)
        for title, run_results in results_by_title.items()
    }
    report = AuditReport(
        dataset=f"{results.probe_set.name} {results.probe_set.version}".strip(),
        digest=digest(results.probe_set),
        results_digest=results_digest(candidate or results, results if candidate else None),
        made_on=today,
        program=f"slicewatch {program_version()}",
        synthetic=contract.synthetic,
        contract=f"{contract.name} {contract.version}",
        k=contract.k,
        excluded=_excluded_for_report(excluded, results),
        baseline=runs[_BASELINE],
        candidate=runs.get(_CANDIDATE),
        comparison=audit_run.comparison(pairs, held_out=False),
        held_out_comparison=audit_run.comparison(pairs, held_out=True),
        decision=None,
    )
    if excluded:
        return report
    versions, thresholds = _deciding_versions_and_thresholds(candidate or results, 1)
    full_run = replace(report.judged, versions=versions, thresholds=thresholds)
    decision = decide(
        report.judged,
        synthetic=contract.synthetic,
        signed=Signed(
            sign_off,
            since=first_day(
                today, case.contract.effective, timedelta(seconds=case.review_cadence // SECOND)
            ),
            others=sign_off.differences(full_run, report) if sign_off else (),
        ),
        faults=(*audit_run.faults(report.judged.title, pairs), *_new_failures(report)),
    )
    return replace(report, decision=decision)


@dataclass(frozen=True, slots=True)
class _AuditRun:
    """Contract and coding of one audit, shared by its runs."""

    contract: Contract
    coding: Coding

    def run(self, title: str, results: Results, pairs: Mapping[str, Sequence[Pair]]) -> Run:
        """Measure the run called ``title`` on each part of the set; return the report's Run."""
        part_flags = {pair.held_out for pair in pairs[title]}
        versions, thresholds = _deciding_versions_and_thresholds(results, self.contract.k)
        return Run(
            title=title,
            versions=versions,
            thresholds=thresholds,
            parts=tuple(
                self._part(title, held_out, pairs) for held_out in sorted({False} | part_flags)
            ),
        )

    def comparison(
        self, pairs: Mapping[str, Sequence[Pair]], *, held_out: bool
    ) -> Comparison | None:
        """Compare candidate and baseline on one part; None without both, or for real people.

        It is also None for real people, none of whose pairs may be named.
        """
        if _CANDIDATE not in pairs or not self.contract.synthetic:
            return None
        parts = {title: _part_pairs(part_pairs, held_out) for title, part_pairs in pairs.items()}
        sides = {
            title: RunSide(part_pairs, self._compared(part_pairs))
            for title, part_pairs in parts.items()
        }
        return compare_runs(sides[_BASELINE], sides[_CANDIDATE]) if parts[_BASELINE] else None

    def faults(self, title: str, pairs: Mapping[str, Sequence[Pair]]) -> tuple[str, ...]:
        """Return sentences on faults in either part that block a release but appear in no rate."""
        faults: dict[str, None] = {}
        for held_out in (False, True):
            parts = {
                name: _rows(_part_pairs(part_pairs, held_out)) for name, part_pairs in pairs.items()
            }
            faults |= dict.fromkeys(unexplained(parts[title], self.contract))
            if title == _CANDIDATE and not self.contract.synthetic:
                rows = parts[_BASELINE], parts[_CANDIDATE]
                faults |= dict.fromkeys(lost_or_spoilt(*rows, self.contract, self.coding))
        return tuple(faults)

    def _part(self, title: str, held_out: bool, pairs: Mapping[str, Sequence[Pair]]) -> Part:
        """Judge one run's pairs, held out or not: counts, checks, supports, advice."""
        parts = {name: _part_pairs(part_pairs, held_out) for name, part_pairs in pairs.items()}
        own_pairs, synthetic = parts[title], self.contract.synthetic
        rows, compared = _rows(own_pairs), self._compared(own_pairs)
        groups = self._slices(rows)
        ungated = self._slices(without_gate(rows)) if synthetic else ()
        declared = {name for group in self.contract.group_bys for name in group.attributes}
        counts = flip_counts(compared, k=self.contract.k, exact=synthetic, declared=declared)
        against_contract = contract_checks(groups, self.contract, rows, self.coding)
        checks = led_by_primary(against_contract, self.contract)
        if title == _CANDIDATE:
            against_baseline = self._against_baseline(rows, _rows(parts[_BASELINE]))
            checks += led_by_primary(against_baseline, self.contract)
        return Part(
            name=HELD_OUT if held_out else REGRESSION,
            pairs=at_least(len(own_pairs), self.contract.k),
            flips=shown_flips(compared) if synthetic else (),
            flips_withheld=not synthetic,
            counts=counts,
            slices=lines_of(groups, self.contract, ungated),
            checks=checks,
            supports=support_checks(groups, self.contract, rows, self.coding),
            calibration=calibration_lines(groups, self.coding, synthetic=synthetic),
            what_if=self._what_if(compared, own_pairs) if synthetic else (),
            advice=advice({stage for count in counts for stage in count.stages}),
        )

    def _compared(self, pairs: Sequence[Pair]) -> tuple[Compared, ...]:
        return comparisons(pairs, self._references)

    @property
    def _references(self) -> dict[str, str]:
        """Map attributes to the reference values that the contract names for them."""
        references: dict[str, str] = {}
        for group in self.contract.group_bys:
            if len(group.attributes) == 1 and group.reference != COMPLEMENT:
                references |= parse_atom(group.reference)
        return references

    def _slices(self, rows: Sequence[Row]) -> tuple[GroupSlices, ...]:
        return slices_of(rows, self.contract, self.coding)

    def _against_baseline(self, rows: Sequence[Row], before: Sequence[Row]) -> tuple[Check, ...]:
        """Return checks against the baseline's rows; in a synthetic set, gated rows count too."""
        synthetic = self.contract.synthetic
        if synthetic:
            rows, before = without_gate(rows), without_gate(before)
        return baseline_checks(self._slices(rows), self._slices(before), exact=synthetic)

    def _what_if(
        self, compared: Sequence[Compared], pairs: Sequence[Pair]
    ) -> tuple[WhatIfLine, ...]:
        """Return flips, TPR and FPR of compared pairs at other thresholds, sliced by a group-by."""
        single = [
            group.attributes[0] for group in self.contract.group_bys if len(group.attributes) == 1
        ]
        if not single:
            return ()
        return what_if(compared, pairs, single[0], reference=self._references.get(single[0]))


def _results_by_title(baseline: Results, candidate: Results) -> dict[str, Results]:
    """Map "baseline" and "candidate" to their results, after checking that the sets are equal.

    Raises:
        AuditError: the runs are on different sets.
    """
    before, after = digest(baseline.probe_set), digest(candidate.probe_set)
    if before != after:
        hashes = f"the candidate's set has the hash {after[:12]}, the baseline's {before[:12]}"
        raise AuditError(f"{hashes}; run both on the same set, every pair and variant of it")
    return {_BASELINE: baseline, _CANDIDATE: candidate}


def _comparable_pairs(
    runs: Mapping[str, Results],
) -> tuple[dict[str, tuple[Pair, ...]], dict[str, str]]:
    """Match each run's pairs; return comparable ones by title, and excluded ids with reasons."""
    matched_by_title = {title: matched(results) for title, results in runs.items()}
    excluded: dict[str, str] = {}
    for title, (_, excluded_pairs) in matched_by_title.items():
        for fault in excluded_pairs:
            reason = fault.reason if title == _BASELINE else f"in the {title}: {fault.reason}"
            excluded.setdefault(fault.pair, reason)
    kept = {
        title: tuple(pair for pair in pairs if pair.id not in excluded)
        for title, (pairs, _) in matched_by_title.items()
    }
    return kept, excluded


def _excluded_for_report(excluded: Mapping[str, str], results: Results) -> tuple[Excluded, ...]:
    """List excluded pairs for the report; for real people, line numbers replace pair ids."""
    if results.probe_set.synthetic:
        return tuple(Excluded(pair, excluded[pair]) for pair in sorted(excluded))
    first_line = {row.item.pair: row.line for row in reversed(results.rows)}
    by_line = sorted((first_line[pair], reason) for pair, reason in excluded.items())
    return tuple(Excluded(f"line {line}", reason) for line, reason in by_line)


def _deciding_versions_and_thresholds(
    results: Results, k: int
) -> tuple[tuple[RunVersions, ...], tuple[float, ...]]:
    """Return versions and thresholds that decided on at least ``k`` pairs, both sorted.

    A threshold on real people may be one person's own.
    """
    versions: dict[RunVersions, set[str]] = defaultdict(set)
    thresholds: dict[float, set[str]] = defaultdict(set)
    for row in results.rows:
        versions[row.versions].add(row.item.pair)
        thresholds[row.observed.threshold].add(row.item.pair)
    return (
        tuple(sorted((key for key, pairs in versions.items() if len(pairs) >= k), key=astuple)),
        tuple(sorted(key for key, pairs in thresholds.items() if len(pairs) >= k)),
    )


def _new_failures(report: AuditReport) -> Iterator[str]:
    if report.comparison is not None:
        yield from broken(report.comparison)
    if report.held_out_comparison is not None:
        yield from (f"{failure} (held out)" for failure in broken(report.held_out_comparison))


def _part_pairs(pairs: Sequence[Pair], held_out: bool) -> tuple[Pair, ...]:
    return tuple(pair for pair in pairs if pair.held_out is held_out)


def _rows(pairs: Iterable[Pair]) -> tuple[Row, ...]:
    return tuple(row for pair in pairs for row in pair.rows)


def use_case_of(settings: Settings, name: str | None) -> UseCase:
    """Return the use case called ``name``; without a name, the only one in the settings.

    Raises:
        AuditError: no use case has the name, or there are several to choose from.
    """
    names = [use_case.name for use_case in settings.use_case]
    if name is None and len(names) == 1:
        return settings.use_case[0]
    if name is None:
        raise AuditError(f"the settings have {len(names)} use cases; {_use_case_choice(names)}")
    if name not in names:
        raise AuditError(
            f"use case {shown(name)}: is not in the settings; {_use_case_choice(names)}"
        )
    return settings.use_case[names.index(name)]


def contract_of(use_case: UseCase, *, synthetic: bool) -> Contract:
    """Return the use case's contract, with k = 1 for a synthetic set and at least MIN_K otherwise.

    k protects people. A synthetic set has no people, so its numbers are exact, whatever the use
    case says of production; a set of real people is guarded, whatever it says.

    Raises:
        AuditError: the set is of real people and the use case declares test conditions.
    """
    contract = use_case.to_core()
    if synthetic:
        return replace(contract, synthetic=True, k=1)
    if use_case.synthetic:
        why = "is declared synthetic, but the set is of real people"
        raise AuditError(f"use case {shown(use_case.name)}: {why}; choose one of real traffic")
    return replace(contract, k=max(contract.k, MIN_K))


def check_listed(results: Results, coding: Coding, contract: Contract) -> None:
    """Refuse rows with an attribute or value that the settings lack, or of another use case.

    Production would code them as ``__other__``; in a set that somebody wrote they are mistakes.
    The error does not repeat values of real people.

    Raises:
        AuditError: the first one found.
    """
    listed = {attribute.name: attribute for attribute in coding.attributes}
    where, synthetic = dict(contract.where), results.probe_set.synthetic
    for row in results.rows:
        for name, value in row.item.attributes.items():
            fault = _unlisted_fault(row, listed.get(name), name, value if synthetic else None)
            if fault:
                raise _row_problem(results, row, name, fault)
        for name, value in where.items():
            if value_of(row, listed[name]) != value:
                fault = f"use case {shown(contract.name)} is about {name}={value}; remove the row"
                raise _row_problem(results, row, name, f"{fault} or choose another")


def _unlisted_fault(row: Row, attribute: Attribute | None, name: str, echo: str | None) -> str:
    """Explain with the fix why an attribute or value is not allow-listed; empty if listed."""
    if attribute is None:
        return "is not allow-listed; add an [[attribute]] to the settings or remove it from the set"
    if attribute.version_of is not None:
        return f"it is taken from versions.{attribute.version_of}; remove it from the set"
    if attribute.code(row.item.attributes[name]) == OTHER:
        subject = "its value" if echo is None else shown(echo)
        return f"{subject} is not allow-listed; use one of {', '.join(attribute.values)}"
    return ""


def _row_problem(results: Results, row: Row, name: str, text: str) -> AuditError:
    return problem(results.path, text, line=row.line, field=field_name("attributes", name))


def _use_case_choice(names: Iterable[str]) -> str:
    return f"give --use-case with one of {', '.join(names)}"
