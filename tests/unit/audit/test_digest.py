from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from probe_rows import set_row, write_json

from monitor.audit.inputs import Item, ProbeSet, canonical, digest, request_digest
from monitor.audit.set_files import read_set

ITEM = Item("p1", "formal", {"channel": "chat"}, expected_ready=True, policy="p1")
PROBE_SET = ProbeSet("pairs", "1", True, frozenset(), (ITEM,))


def test_the_hash_of_a_known_set_stays_what_it_is() -> None:
    """Sets are declared in settings by their hash: it must not change between releases."""
    lines = [
        {"dataset": "pairs", "dataset_version": "1", "synthetic": True, "varies": []},
        {
            "pair_id": "p1",
            "variant": "formal",
            "axis": "",
            "attributes": {"channel": "chat"},
            "expected_ready": True,
            "policy": "p1",
            "evidence": None,
            "reviewers_agree": None,
            "held_out": False,
            "request_sha256": "",
        },
    ]
    text = "\n".join(json.dumps(line, sort_keys=True, separators=(",", ":")) for line in lines)
    assert digest(PROBE_SET) == hashlib.sha256(text.encode()).hexdigest()
    assert digest(PROBE_SET) == "ae36531f94f6a6d97552aa67cbca757125ffe7818d4e44862ffdc231fb369688"


def test_the_request_is_covered_by_its_own_hash(tmp_path: Path) -> None:
    request = {"b": [1, 2.5, None], "a": "Grüße"}
    (item,) = read_set(write_json(tmp_path / "set.jsonl", [set_row(request=request)])).items
    text = '{"a":"Grüße","b":[1,2.5,null]}'
    assert item.request_digest == hashlib.sha256(text.encode()).hexdigest()
    asked = replace(PROBE_SET, items=(replace(ITEM, request_digest=item.request_digest),))
    assert digest(asked) != digest(PROBE_SET)


def test_a_request_that_is_empty_is_one() -> None:
    assert len({request_digest(None), request_digest(""), request_digest({})}) == 3


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_json_cannot_say_has_no_canonical_text(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical(value)
