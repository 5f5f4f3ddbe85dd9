"""EXAMPLE, SYNTHETIC: writes set.jsonl, sixty matched pairs of invented requests.

Every pair is one request in formal and in conversational wording. The pairs differ in how complete
the request is, from 0.30 to 0.96, which is what the example router scores; none lies so near its
threshold of 0.70 that the wording could decide. At 0.80 for one of the variants twenty pairs flip::

    python make_set.py > set.jsonl
"""

from __future__ import annotations

import json
from collections.abc import Iterator

PAIRS = 60
THRESHOLD = 0.70
TOPICS = ("a parcel", "an invoice", "a contract", "a password", "an address", "a refund")
WORDINGS = {
    "formal": "Dear team, I would like to enquire about {topic}. The reference is {reference}.",
    "conversational": "hey, quick one about {topic}, it's {reference}, can you check?",
}
HELD_OUT_EVERY = 5
SERVED_JUST, SERVED, REVIEWED = 20, 10, 30
"""Pairs from 0.72 to 0.79, above 0.82, and up to 0.66."""


def completeness(number: int) -> float:
    """How complete the request of a pair is: spread evenly over three ranges."""
    if number < SERVED_JUST:
        return round(0.72 + 0.06 * number / (SERVED_JUST - 1), 3)
    if number < SERVED_JUST + SERVED:
        return round(0.84 + 0.12 * (number - SERVED_JUST) / (SERVED - 1), 3)
    return round(0.30 + 0.36 * (number - SERVED_JUST - SERVED) / (REVIEWED - 1), 3)


def rows() -> Iterator[dict[str, object]]:
    """Two a pair."""
    for number in range(PAIRS):
        complete = completeness(number)
        topic = TOPICS[number % len(TOPICS)]
        for variant, wording in WORDINGS.items():
            yield {
                "dataset": "example-probes",
                "dataset_version": "1",
                "synthetic": True,
                "pair_id": f"q{number + 1:02d}",
                "variant": variant,
                "attributes": {"language_variety": variant, "channel": "chat"},
                "expected_ready": complete >= THRESHOLD,
                "policy": "policy-1",
                "reviewers_agree": True,
                "held_out": number % HELD_OUT_EVERY == 0,
                "request": {
                    "text": wording.format(topic=topic, reference=f"R-{1000 + number}"),
                    "language_variety": variant,
                    "completeness": complete,
                    "evidence": True,
                },
            }


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row))  # noqa: T201 - a script
