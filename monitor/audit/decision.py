"""The release decision: a run decides what it measures, a person signs for the rest.

:func:`advice` recommends what to try for each stage of the router that failed.

=========================================  ==================  ==================================
requirement                                synthetic set       reviewed data of real people
=========================================  ==================  ==================================
synthetic_regression_pairs_pass            measured            signed
representative_reviewed_slice_set          signed              signed, and every check passes on it
minimum_positive_and_negative_support      signed              measured
approved_group_definition_and_...          signed              signed
production_monitoring_owner                signed              signed
=========================================  ==================  ==================================

A signature never replaces a measurement. It is stale, and ignored, when it is older than the
contract's review cadence, or older than the contract itself: it was about other limits or other
people. A signature for another release (other versions, threshold, contract or set) is ignored too.

On reviewed data a limit is kept only where the interval says so: too little support is no pass.

Two faults speak against a release and appear in no rate, since TPR and FPR are over replies that
passed the evidence gate. First, a reply may be served although score, threshold or gate say
otherwise; the signed threshold did not decide it. Second, a candidate could pass on real people by
stopping what it gets wrong: rates over all their items would reveal by subtraction what the gate
stopped, and are not shown. Both faults are counted here; for real people they are reported only
where they are at least k pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from monitor.audit.audit_report import (
    HELD_OUT,
    Check,
    LimitsLine,
    Part,
    Point,
    Recommendation,
    ReleaseDecision,
    Requirement,
    RequirementLine,
    Run,
)
from monitor.audit.flip_counts import stage_name
from monitor.audit.inputs import Row
from monitor.audit.sign_off import SignOff
from monitor.audit.slices import slice_of
from monitor.core.contract import Contract, Role, Verdict
from monitor.core.counts.coding import Coding
from monitor.core.metric import Metric
from monitor.core.probes.flips import FlipCause, FlipStage, explained

_MEASURED = "this run"
_NAMED = 3
"""Most failing checks that are named; the report lists the others."""


@dataclass(frozen=True, slots=True)
class Signed:
    """Signatures for a release, with the first day from which they count.

    Attributes:
        sign_off: the file; None without one.
        since: first day whose signatures are not stale.
        others: differences between the signed release and this one; if any, no signature counts.
    """

    sign_off: SignOff | None
    since: date
    others: tuple[str, ...] = ()

    def line(self, requirement: Requirement) -> RequirementLine:
        """Return the requirement's line as decided by its signature alone: met, or why not."""
        signature = self.sign_off.signatures.get(requirement) if self.sign_off else None
        if signature is None:
            return RequirementLine(requirement, False, "", None, "not signed")
        faults = self.others
        if signature.at < self.since:
            faults += (f"stale: signed before {self.since}, to be looked at again",)
        why = "; ".join(faults) or signature.reference or "signed"
        return RequirementLine(requirement, not faults, signature.by, signature.at, why)


def first_day(today: date, effective: date, cadence: timedelta) -> date:
    """Return the first day whose signatures count: the later of last review and contract start.

    A future contract is prepared before it holds, so only the review counts then.

    Args:
        today: day of the decision.
        effective: first day of the contract.
        cadence: time between two reviews.
    """
    reviewed = today - cadence
    return max(reviewed, effective) if effective <= today else reviewed


def decide(
    run: Run, *, synthetic: bool, signed: Signed, faults: Sequence[str] = ()
) -> ReleaseDecision:
    """Return the release decision, made from measurements on the run, signatures and faults.

    Args:
        run: run of the router to release, all of its parts.
        synthetic: the set is invented.
        signed: signatures of people.
        faults: faults of :func:`unexplained` and :func:`lost_or_spoilt`, which are in no rate, and
            failures that are new in the candidate.
    """
    measured = _ON_SYNTHETIC if synthetic else _ON_REVIEWED
    fault_requirement = Requirement.PAIRS if synthetic else Requirement.REVIEWED_SET
    lines = tuple(
        _requirement_line(
            requirement,
            run,
            measured.get(requirement),
            signed,
            faults if requirement is fault_requirement else (),
        )
        for requirement in Requirement
    )
    limits = tuple(_limit_lines(run, synthetic=synthetic))
    return ReleaseDecision(all(line.met for line in lines), lines, limits)


_WORST_FIRST = (
    Verdict.FAIL,
    Verdict.INSUFFICIENT_SUPPORT,
    Verdict.INCONCLUSIVE,
    Verdict.PASS,
    Verdict.BETTER_OFF,
)


def _limit_lines(run: Run, *, synthetic: bool) -> Iterator[LimitsLine]:
    """Yield the worst verdict on the limits of each role and metric, primary metric first."""
    verdicts: dict[tuple[Role, Metric], set[Verdict | None]] = defaultdict(set)
    for check in (check for part in run.parts for check in part.checks):
        verdict = _point_verdict(check) if synthetic else _check_verdict(check)
        verdicts[check.role, check.metric].add(verdict)
    roles = list(Role)
    for role, metric in sorted(verdicts, key=lambda role_metric: roles.index(role_metric[0])):
        worst = next(
            (possible for possible in _WORST_FIRST if possible in verdicts[role, metric]), None
        )
        if worst is not None:
            yield LimitsLine(role, metric, worst)


def _point_verdict(check: Check) -> Verdict:
    return {
        Point.PASS: Verdict.PASS,
        Point.FAIL: Verdict.FAIL,
        Point.BETTER_OFF: Verdict.BETTER_OFF,
        Point.NONE: Verdict.INSUFFICIENT_SUPPORT,
    }[check.point]


def _check_verdict(check: Check) -> Verdict | None:
    """Return a check's verdict by estimate and interval; None if neither decides."""
    if _fails(check):
        return Verdict.FAIL
    if check.verdict is None and check.point is Point.PASS:
        return Verdict.PASS
    return check.verdict


def _requirement_line(
    requirement: Requirement,
    run: Run,
    measured: Measured | None,
    signed: Signed,
    more_faults: Sequence[str],
) -> RequirementLine:
    """Return if a requirement is met: by its signature, or by what ``measured`` finds wrong."""
    if measured is None:
        return signed.line(requirement)
    faults = "; ".join((*measured(run), *more_faults))
    if requirement is Requirement.REVIEWED_SET:
        line = signed.line(requirement)
        return replace(line, met=False, why=f"{line.why}; {faults}") if faults else line
    why = faults or _met_sentence(requirement, run)
    return RequirementLine(requirement, not faults, _MEASURED, None, why)


def _pair_faults(run: Run) -> Iterator[str]:
    """Yield reasons why synthetic pairs do not pass; none if they do.

    Several routers in one run do not pass: comparing variants that two routers decided is
    meaningless.
    """
    regression = run.parts[0]
    for noun, decided_by in (("versions", run.versions), ("thresholds", run.thresholds)):
        if len(decided_by) > 1:
            yield f"{len(decided_by)} {noun}: run all variants with those that are released"
    if not regression.counts:
        yield "no two variants were compared"
    rates = next((line.rates for line in regression.slices if not line.slice), {})
    for metric, kind in ((Metric.TPR, "ready"), (Metric.FPR, "not ready")):
        if metric not in rates:
            yield f"no reply that is {kind} passes the evidence gate"
    flips = sum(len(part.flips) for part in run.parts)
    if flips:
        yield f"{flips} flip{'s' if flips > 1 else ''}"
    yield from _checks_sentence(run, "failed", lambda check: check.point is Point.FAIL)


def _support_faults(run: Run) -> Iterator[str]:
    """Yield a sentence that counts the slices without the required support, if any."""
    supports = run.parts[0].supports
    short = {check.slice for check in supports if not check.met}
    if short:
        yield f"{len(short)} of {len({check.slice for check in supports})} slices lack support"


def _contract_faults(run: Run) -> Iterator[str]:
    """Yield sentences on checks of reviewed data that fail, or that no interval shows to pass.

    The held-out part has to pass too: else failures could be held out. Checks against the baseline
    have no interval; :func:`lost_or_spoilt` counts what they cannot decide.
    """
    yield from _checks_sentence(run, "failed", _fails)
    yield from _checks_sentence(
        run,
        "not shown by the interval to be kept",
        lambda check: not _fails(check) and check.verdict in _OPEN,
    )


_OPEN = (Verdict.INCONCLUSIVE, Verdict.INSUFFICIENT_SUPPORT)


def _fails(check: Check) -> bool:
    return check.point is Point.FAIL or check.verdict is Verdict.FAIL


def _checks_sentence(run: Run, fault: str, matches: Callable[[Check], bool]) -> Iterator[str]:
    """Yield one sentence that names the checks that match, or nothing."""
    names = [
        _check_name(part, check) for part in run.parts for check in part.checks if matches(check)
    ]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{fault}: {', '.join(names[:_NAMED])}{more}"


def _met_sentence(requirement: Requirement, run: Run) -> str:
    """Return a sentence on what was measured and met, and how many checks stayed undecided."""
    if requirement is Requirement.SUPPORT:
        return "every slice has the support that the contract asks for"
    checks = [check for part in run.parts for check in part.checks]
    open_ = sum(check.point is Point.NONE for check in checks)
    if not open_:
        return "no flip, and every limit is kept by the point"
    undecided = f"{open_} of {len(checks)} checks could not be decided"
    return f"no flip, and every limit that a point can decide is kept; {undecided}"


def _check_name(part: Part, check: Check) -> str:
    slice_note = f" of {check.slice}" if check.slice else ""
    side_note = f" ({check.against} is worse off)" if check.worse_off == check.against != "" else ""
    return f"{check.name}{slice_note}{side_note}{' (held out)' if part.name == HELD_OUT else ''}"


Measured = Callable[[Run], Iterator[str]]
"""Measurement of a requirement on a run: yields the reasons why it is not met."""

_ON_SYNTHETIC: Mapping[Requirement, Measured] = {Requirement.PAIRS: _pair_faults}
_ON_REVIEWED: Mapping[Requirement, Measured] = {
    Requirement.REVIEWED_SET: _contract_faults,
    Requirement.SUPPORT: _support_faults,
}


_BEHIND = FlipStage.JUDGE_OR_ROUTE

# The order is that of the router's stages: a failing stage hides the stages behind it.
_ADVICE = (
    Recommendation(
        stage_name(FlipStage.EVIDENCE_GATE, None),
        "Hypothesis: the evidence is found for one wording and not for the other. Compare what was "
        "retrieved for both, then try synonyms, query normalisation inside the search, or an index "
        "that knows the variant's language; judge it on the held-out pairs.",
        "Another prompt or threshold (neither was reached); letting requests through without "
        "evidence; rewriting customers' text.",
    ),
    Recommendation(
        stage_name(_BEHIND, FlipCause.JUDGE_SCORE),
        "Hypothesis: the judge scores the form and not only the content. Say in the rubric what "
        "must not count, give it reviewed examples of both forms, check calibration by slice; "
        "judge it on the held-out pairs. More training data of one form is worth trying only if "
        "its shortage has been located (--dataset).",
        "Rewriting customers' text; a lower threshold for all (it serves more unclear replies); "
        "making the better slice worse (levelling down). Thresholds by slice leave the scores as "
        "they are and treat people by their attribute: a decision for product and legal, not a "
        "repair.",
    ),
    Recommendation(
        stage_name(_BEHIND, FlipCause.THRESHOLD),
        "Hypothesis: the variants met two configurations (a roll-out, a cache, a rule by "
        "channel). Find where each threshold was set, apply one to both, run the set again. If two "
        "are meant, that is a decision for product and legal, to be written down.",
        "Another prompt, judge or training data (the scores agree); raising the lower threshold "
        "only to close the gap (levelling down).",
    ),
    Recommendation(
        stage_name(_BEHIND, FlipCause.SCORE_AND_THRESHOLD),
        "Hypothesis: two causes at once. Apply one threshold to both first and run the set "
        "again; what still flips is the judge's.",
        "Moving one threshold until this pair agrees: the difference of the scores stays, and "
        "every other request near the threshold moves too.",
    ),
    Recommendation(
        stage_name(_BEHIND, FlipCause.ROUTE),
        "Hypothesis: something after the judge overrides it (a rule, a fall-back, a time-out, a "
        "rate limit). Log which rule decided, send both variants again, and see whether it is the "
        "wording or chance.",
        "Another prompt, judge or threshold: score and threshold do not explain these routes.",
    ),
)


def advice(stages: Collection[str]) -> tuple[Recommendation, ...]:
    """Return the recommendations for the failed ``stages``, in the order of the router's stages.

    Args:
        stages: stages as in :attr:`~monitor.audit.audit_report.FlipCounts.stages`.
    """
    return tuple(recommendation for recommendation in _ADVICE if recommendation.stage in stages)


def unexplained(rows: Sequence[Row], contract: Contract) -> Iterator[str]:
    """Yield a sentence if at least k pairs were served against score, threshold or gate."""
    served_rows = [row for row in rows if row.served and not explained(row.observed)]
    if len({row.item.pair for row in served_rows}) >= contract.k:
        subject = f"{len(served_rows):,} replies" if contract.synthetic else "replies"
        yield f"{subject} served against score, threshold or evidence gate"


def lost_or_spoilt(
    baseline: Sequence[Row], candidate: Sequence[Row], contract: Contract, coding: Coding
) -> Iterator[str]:
    """Yield a sentence for ready, and one for unready, replies that the candidate serves worse.

    Pairs that are served better count against those that are served worse: the fault compares two
    rates of the very same items.

    Args:
        baseline: rows of one part under the baseline.
        candidate: rows of the same items under the candidate.
        contract: contract with the slices to check, and with k.
        coding: coding that names the slices.
    """
    baseline_served = {(row.item.pair, row.item.variant): row.served for row in baseline}
    group_bys = ((), *(group.attributes for group in contract.group_bys))
    for ready, text in (
        (True, "fewer ready replies are served than by the baseline, over all items"),
        (False, "more replies that are not ready are served than by the baseline, over all items"),
    ):
        worse: dict[tuple[object, ...], set[str]] = {}
        better: dict[tuple[object, ...], set[str]] = {}
        for row in candidate:
            served = baseline_served[row.item.pair, row.item.variant]
            if row.item.expected_ready is not ready or row.served is served:
                continue
            changed = worse if served is ready else better
            for attributes in group_bys:
                slice_ = attributes, slice_of(row, attributes, coding)
                changed.setdefault(slice_, set()).add(row.item.pair)
        if any(
            len(worse_pairs) - len(better.get(group_slice, ())) >= contract.k
            for group_slice, worse_pairs in worse.items()
        ):
            yield text
