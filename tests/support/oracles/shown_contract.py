"""States and verdicts as a reader finds them: from shown rows and the contract's numbers alone.

Independent of the product: decimals as they are printed, compared as fractions. Two facts are in
no row, so two states are taken from it: the support of a complement, which has no row, and how many
labels are in (completeness is rounded).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]

_UNLABELLED = ("selection", "blocked")
_LEVELS = {"tpr": "min_levels", "fpr": "max_levels"}


def disagreements(contract: Row) -> list[str]:
    """Every shown state and verdict of the deciding window that its row does not bear out.

    Args:
        contract: one of ``Snapshot.contracts``, as it is encoded.

    Returns:
        A line for each; empty where all follow.
    """
    (window,) = (one for one in contract["windows"] if one["window"] == contract["window"])
    tables = [("", [window["total"]])]
    tables += [(group["group_by"], group["rows"]) for group in window["groups"]]
    return [text for name, rows in tables for text in _of_table(contract, name, rows)]


_WHERE = {
    "max_gap": "max_gaps",
    "min_ratio": "min_ratios",
    "min_level": "min_levels",
    "max_level": "max_levels",
}


def _for_slice(contract: Row, group_by: str, slice_: str) -> Row:
    """The contract with the limits of one slice: its own, else its group-by's, else all's."""
    limits = {where: dict(contract[where]) for where in _WHERE.values()}
    for of in ("", slice_):
        for own in contract["own_limits"]:
            if own["group_by"] == group_by and own["slice"] == of:
                limits[_WHERE[own["kind"]]][own["metric"]] = own["value"]
    return {**contract, **limits}


def _of_table(everyones: Row, group_by: str, rows: list[Row]) -> Iterator[str]:
    by_slice = {row["slice"]: row for row in rows}
    for row in rows:
        contract = _for_slice(everyones, group_by, row["slice"])
        for metric, state in row["states"].items():
            verdict = row["gaps"].get(metric, {}).get("verdict")
            expected = expected_of(contract, row, by_slice, metric)
            if row["slice"] and _too_much_blocked(contract, row):
                expected = {tuple(map(_not_green, pair)) for pair in expected}  # type: ignore[misc]
            if (state, verdict) not in expected:
                yield f"{row['slice']!r} {metric}: {state}, {verdict}; its row: {expected}"


def _too_much_blocked(contract: Row, row: Row) -> bool:
    """More than is allowed is blocked, or nobody can tell that it is not."""
    most, rate = contract["max_blocked"], row["rates"].get("blocked")
    if most is None or rate is None:
        return most is not None
    share = rate["value"] if rate["value"] is not None else rate["at_most"]
    return bool(share is None or share > most)


def _not_green(word: str | None) -> str | None:
    return "insufficient_support" if word in ("within_contract", "pass") else word


def expected_of(
    contract: Row, row: Row, rows: Mapping[str, Row], metric: str
) -> set[tuple[str, str | None]]:
    """Pairs of state and verdict of the gap that a row allows: one, but for what no row shows."""
    rate, gap = row["rates"].get(metric), row["gaps"].get(metric)
    if rate is None:
        return {("suppressed", None)}
    limit, ratio = contract["max_gaps"].get(metric), contract["min_ratios"].get(metric)
    limited = gap is not None and not limit is ratio is None
    pending = "insufficient_support" if limited else None
    short, out = ("insufficient_support", pending), ("maturing", pending)
    compared = row["slice"] and not _is_reference(row, rows)
    if not _supported(contract, metric, row):
        return {short, ("suspected", None)} if _is_behind(row, rows, metric) else {short}
    if compared and (gap is None or not _reference_supported(contract, metric, gap, rows)):
        return {short}
    verdict = _of_both(gap, limit, ratio) if gap is not None else None
    if not compared and _is_behind(row, rows, metric):
        return {("suspected", None)}
    expected = {(_state([verdict, _by_level(contract, metric, rate, row["slice"])]), verdict)}
    if expected == {("within_contract", verdict)} and not _kept_at_worst(contract, row, metric):
        return {out, short}
    if gap is not None and gap["reference"] == "complement":
        expected.add(short)
    if metric not in _UNLABELLED:
        expected.add(out)
    return expected


def _kept_at_worst(contract: Row, row: Row, metric: str) -> bool:
    """Whether the limits are kept whatever the missing labels say, by the bounds that are shown."""
    rate, gap = ({**shown, **_worst(shown)} for shown in (row["rates"][metric], _gap(row, metric)))
    limit, ratio = contract["max_gaps"].get(metric), contract["min_ratios"].get(metric)
    by_gap = _of_both(gap, limit, ratio) if gap else None
    return {by_gap, _by_level(contract, metric, rate, row["slice"])} <= {"pass", None}


def _gap(row: Row, metric: str) -> Row:
    return row["gaps"].get(metric) or {}


def _worst(shown: Row) -> Row:
    if shown.get("least") is None:
        return {}
    return {"lower": shown["least"], "upper": shown["most"]}


def _supported(contract: Row, metric: str, row: Row) -> bool:
    """Precision rests on positives and negatives alike, and needs the minima of both."""
    minima = contract["min_supports"]
    least = minima["tpr"] + minima["fpr"] if metric == "precision" else minima[metric]
    return bool(row["rates"][metric]["support"] >= least)


def _is_reference(row: Row, rows: Mapping[str, Row]) -> bool:
    """A named reference; it alone has no gap of its own where others have."""
    names = {gap["reference"] for one in rows.values() for gap in one["gaps"].values()}
    return row["slice"] in names


def _is_behind(row: Row, rows: Mapping[str, Row], metric: str) -> bool:
    """A named reference that a slice is better off than."""
    gaps = (one["gaps"].get(metric) for one in rows.values())
    against = [gap for gap in gaps if gap is not None and gap["reference"] == row["slice"]]
    return any(gap["verdict"] == "better_off" for gap in against)


def _reference_supported(contract: Row, metric: str, gap: Row, rows: Mapping[str, Row]) -> bool:
    if gap["reference"] == "complement":
        return True  # as far as a reader can tell
    return _supported(contract, metric, rows[gap["reference"]])


def _by_gap(gap: Row, limit: float) -> str:
    low, high, most = _number(gap["lower"]), _number(gap["upper"]), _number(limit)
    if low > most:
        return "fail"
    if -high > most:
        return "better_off"
    return "pass" if high <= most and -low <= most else "inconclusive"


def _of_both(gap: Row, limit: float | None, ratio: float | None) -> str | None:
    """On gap and ratio: the worse one."""
    found = [
        *([] if limit is None else [_by_gap(gap, limit)]),
        *([] if ratio is None else [_by_ratio(gap, ratio)]),
    ]
    return next(
        (one for one in ("fail", "better_off", "inconclusive", "pass") if one in found), None
    )


def _by_ratio(gap: Row, limit: float) -> str:
    least, most = _number(limit), _number(1 / limit)
    low = None if gap["ratio_lower"] is None else _number(gap["ratio_lower"])
    high = None if gap["ratio_upper"] is None else _number(gap["ratio_upper"])
    if high is not None and high < least:
        return "fail"
    if low is not None and low > most:
        return "better_off"
    within = low is not None and high is not None and low >= least and high <= most
    return "pass" if within else "inconclusive"


def _by_level(contract: Row, metric: str, rate: Row, slice_: str) -> str | None:
    kind = _LEVELS.get(metric)
    level = contract[kind].get(metric) if kind else None
    if level is None or not slice_:
        return None  # the total is no slice
    low, high, limit = _number(rate["lower"]), _number(rate["upper"]), _number(level)
    if metric == "tpr":
        return "fail" if high < limit else "pass" if low >= limit else "inconclusive"
    return "fail" if low > limit else "pass" if high <= limit else "inconclusive"


def _state(verdicts: list[str | None]) -> str:
    found = {one for one in verdicts if one is not None}
    if not found:
        return "no_limit"
    if "fail" in found:
        return "suspected"
    if "better_off" in found:
        return "better_off"
    return "within_contract" if found == {"pass"} else "inconclusive"


def _number(shown: float) -> Fraction:
    """As printed, to a digit beyond which no float tells equality from rounding."""
    return Fraction(f"{shown:.12f}")
