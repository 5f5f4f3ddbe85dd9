"""Turn the US-census employment predictions of nannyml into decisions and labels.

The data ship inside the nannyml wheel (``pip download --no-deps nannyml``, then unzip
``nannyml/datasets/data``): 208,892 people of Massachusetts, survey years 2016 to 2018, with a
model's prediction whether they are employed. Here a prediction of 1 stands for ``auto_serve`` and
being employed for ``ready``. It is a real data set used as an exercise, not a router's traffic:
what comes out says nothing about any product.

Example::

    python census_to_events.py employment_MA_analysis.pq employment_MA_analysis_target.pq out
    slicewatch db new-key census.key
    slicewatch replay -s census.toml out/decisions.jsonl out/labels.jsonl --summary

Needs pandas and pyarrow.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

THRESHOLD = 0.5  # the model predicts 1 at or above it; checked below
SPREADS = ("years", "28d")
AUDIT_KEY, DELAY_KEY = b"census audit", b"census delay"  # one key a draw: they are independent
DAY = 86_400_000_000  # microseconds
FIRST_DELAY, LONGEST_DELAY = DAY // 24, 10 * DAY
VERSIONS = {"judge": "nannyml-0.13", "rubric": "employed", "policy": "half", "router": "census"}


def read(analysis: Path, targets: Path) -> pd.DataFrame:
    """Join predictions and outcomes, in the order of the survey years.

    Returns:
        One row a person: ``id``, ``year``, ``sex``, ``rac1p``, ``score``, ``auto``, ``ready``.

    Raises:
        ValueError: if the files do not belong together, or route and threshold contradict.
    """
    columns = ["id", "year", "SEX", "RAC1P", "prediction", "predicted_probability"]
    people = pd.read_parquet(analysis, columns=columns)
    joined = people.merge(pd.read_parquet(targets), on="id", validate="one_to_one")
    if len(joined) != len(people):
        raise ValueError("some predictions have no outcome")
    frame = pd.DataFrame(
        {
            "id": joined["id"],
            "year": joined["year"],
            "sex": joined["SEX"].astype(str),
            "rac1p": joined["RAC1P"].astype(str),
            "score": joined["predicted_probability"],
            "auto": joined["prediction"] == 1,
            "ready": joined["employed"] == 1,
        }
    )
    if not (frame["auto"] == (frame["score"] >= THRESHOLD)).all():
        raise ValueError("a prediction is on the wrong side of the threshold")
    return frame.sort_values(["year", "id"], ignore_index=True)


def prepare(frame: pd.DataFrame, spread: str = "years", audit: float = 1.0) -> pd.DataFrame:
    """Add when each decision is made, which labels are requested, and when they come.

    Args:
        frame: of :func:`read`.
        spread: ``years`` spreads each survey year's rows evenly over that year (no gap is near
            the horizon of the history clock); ``28d`` spreads all rows over the last 28 days of
            the last year, so that one rolling window holds them all.
        audit: probability that an auto_serve decision gets a label; all of human_review do.

    Returns:
        The frame with ``decided`` and ``labelled`` (microseconds since 1970), ``audit_p`` and
        ``requested``. Draws are keyed hashes of the id: the same in every run.
    """
    audit_p = np.where(frame["auto"], audit, 1.0)
    wait = _draws(frame["id"], DELAY_KEY) * (LONGEST_DELAY - FIRST_DELAY)
    decided = _moments(frame["year"], spread)
    return frame.assign(
        decided=decided,
        labelled=decided + FIRST_DELAY + wait.astype(np.int64),
        audit_p=audit_p,
        requested=_draws(frame["id"], AUDIT_KEY) < audit_p,
    )


def decisions(prepared: pd.DataFrame) -> Iterator[bytes]:
    """One JSON decision a row, in the order of decided_at."""
    texts = zip(prepared["id"], _rfc3339(prepared["decided"]), strict=True)
    columns = ("auto", "score", "sex", "rac1p", "audit_p", "requested")
    rows = zip(*(prepared[name].tolist() for name in columns), strict=True)
    for (key, at), (auto, score, sex, rac1p, audit_p, requested) in zip(texts, rows, strict=True):
        event = {
            "decision_id": f"census-{key}",
            "decided_at": at,
            "route": "auto_serve" if auto else "human_review",
            "judge_score": score,
            "threshold": THRESHOLD,
            "evidence_passed": True,
            "attributes": {"sex": sex, "rac1p": rac1p},
            "versions": VERSIONS,
            "audit_p": audit_p,
            "label_requested": requested,
        }
        yield msgspec.json.encode(event)


def labels(prepared: pd.DataFrame) -> Iterator[bytes]:
    """One JSON label for each requested one, in the order of labelled_at."""
    due = prepared[prepared["requested"]].sort_values(["labelled", "id"])
    moments = zip(_rfc3339(due["decided"]), _rfc3339(due["labelled"]), strict=True)
    rows = zip(due["id"], due["auto"].tolist(), due["ready"].tolist(), strict=True)
    for (key, auto, ready), (decided_at, labelled_at) in zip(rows, moments, strict=True):
        event = {
            "label_id": f"census-label-{key}",
            "decision_id": f"census-{key}",
            "decided_at": decided_at,
            "version": 1,
            "ready": ready,
            "kind": "initial",
            "reason": "audit" if auto else "review",
            "reviewer": "census",
            "labelled_at": labelled_at,
        }
        yield msgspec.json.encode(event)


def _moments(years: pd.Series[int], spread: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if spread == "28d":
        end = _new_year(int(years.max()) + 1)
        return _even(end - 28 * DAY, end, len(years))
    spans = ((_new_year(year), _new_year(year + 1)) for year in sorted(years.unique().tolist()))
    sizes = years.value_counts().sort_index().tolist()
    return np.concatenate([_even(*span, n) for span, n in zip(spans, sizes, strict=True)])


def _new_year(year: int) -> int:
    return int(np.datetime64(f"{year}-01-01", "us").astype(np.int64))


def _even(start: int, end: int, n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return start + (2 * np.arange(n) + 1) * (end - start) // (2 * n)


def _rfc3339(moments: pd.Series[int]) -> list[str]:
    texts = np.datetime_as_string(moments.to_numpy().astype("datetime64[us]"), unit="us")
    return [f"{text}Z" for text in texts.tolist()]


def _draws(ids: pd.Series[int], key: bytes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Uniform in [0, 1) by a keyed hash."""
    digests = [blake2b(str(one).encode(), digest_size=8, key=key).digest() for one in ids]
    return (np.frombuffer(b"".join(digests), ">u8") >> 11) / 2.0**53


def main() -> None:
    """Write decisions.jsonl and labels.jsonl."""
    parser = argparse.ArgumentParser(description="Census predictions as decisions and labels.")
    parser.add_argument("analysis", type=Path, help="employment_MA_analysis.pq")
    parser.add_argument("targets", type=Path, help="employment_MA_analysis_target.pq")
    parser.add_argument("out", type=Path, help="directory to write to")
    parser.add_argument("--spread", choices=SPREADS, default="years")
    parser.add_argument("--audit", type=float, default=0.2, help="audited share of auto_serve")
    given = parser.parse_args()
    prepared = prepare(read(given.analysis, given.targets), given.spread, given.audit)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, events in (("decisions", decisions(prepared)), ("labels", labels(prepared))):
        with (given.out / f"{name}.jsonl").open("wb") as file:
            file.writelines(event + b"\n" for event in events)


if __name__ == "__main__":
    main()
