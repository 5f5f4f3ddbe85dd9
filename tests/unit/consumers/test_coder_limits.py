"""What producers make up without end is coded right and not remembered without end."""

from __future__ import annotations

import json
import secrets
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import lesson
import numpy as np
import pytest

from consumers import coder as coder_module
from consumers.codec import DecisionCodec
from consumers.coder import Coder
from consumers.dead_letters import DeadLetterBuffer
from monitor.core.counts.coding import Attribute, Coding, CodingHistory
from monitor.flushes import DeadLetter
from monitor.records import RecordBatch, Shard

CODING = Coding(
    (Attribute("channel", ("chat", "caf\u00e9")), Attribute("release", ("j1",), "judge")),
    score_bands=(0.7, 0.9),
    audit_rates=(1.0, 0.5),
)


def decision(channel: object = "chat", **more: Any) -> dict[str, Any]:
    return lesson.decision("a", lesson.START, 0.8, attributes={"channel": channel}, **more)


def read(coder: Coder, *values: dict[str, Any] | bytes) -> tuple[list[str], list[DeadLetter]]:
    """Atoms of what was counted, and the dead letters."""
    messages = [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    records = RecordBatch(Shard("d", 0), range(len(messages)), messages, [0] * len(messages))
    letters = DeadLetterBuffer(records, HASHER)
    found = DecisionCodec(coder, CODING).read(records, letters)
    cells = coder.cells(found.codes, found.bands, found.ts)
    rows = coder.dictionary
    return [rows.atoms[rows.cells[cell][0]] for cell in cells.tolist()], letters.found


@pytest.fixture(autouse=True)
def _known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates are the same in every run."""
    monkeypatch.setattr(secrets, "token_bytes", bytes)


class Hasher:
    def hash_payload(self, payload: bytes) -> str:
        return ""


HASHER: Any = Hasher()


def coder(max_versions: int = 64) -> Coder:
    return Coder(CodingHistory.always(CODING), max_versions)


ENDLESS: Mapping[str, Callable[[int], dict[str, Any] | str]] = {
    "unlisted values": lambda i: decision(f"value {i}"),
    "long unlisted values": lambda i: decision(f"{i:0200}"),
    "versions without room": lambda i: decision(versions={**lesson.VERSIONS, "judge": f"j{i}"}),
    "thresholds without room": lambda i: decision(threshold=i / 1e6),
    "audit probabilities": lambda i: decision(audit_p=1 - i / 1e6),
    "probes that nobody signed": lambda i: decision(f"value {i}", traffic="probe"),
    "spellings": lambda i: json.dumps(decision()).replace('": "chat', '":' + " " * i + '"chat'),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_can_be_made_up_without_end_takes_little_room(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also within one batch, which may be of any size; what it means stays right."""
    monkeypatch.setattr(coder_module, "MAX_STRAY_BYTES", 20_000)
    mine, listed = coder(4), [decision(), decision("caf\u00e9")]
    made = [ENDLESS[kind](i) for i in range(3_000)]
    flood: list[dict[str, Any] | bytes] = [
        one.encode() if isinstance(one, str) else one for one in made
    ]
    read(mine, *listed)
    found, refused = read(mine, *flood)
    assert not refused
    assert len(found) == 3_000
    assert len(set(found[100:])) == 1, "all mean the same"
    assert len(mine.codes) <= 100
    assert read(mine, *listed)[0] == ["channel=chat,release=j1", "channel=caf\u00e9,release=j1"]
    assert len(mine.codes) <= 2, "emptied before the batch"
    assert len(mine._meanings) <= 2


def test_no_more_keys_than_bytes_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of listed values, each as large as nested parts may be."""
    monkeypatch.setattr(coder_module, "MAX_KEY_BYTES", 100_000)
    monkeypatch.setattr(coder_module, "MAX_SPELLINGS", 10**6)
    mine = coder()
    text = json.dumps(decision())
    blanks = (text.replace('"chat"', '"chat"' + " " * (3_900 - i)) for i in range(200))
    found, _ = read(mine, *(one.encode() for one in blanks))
    assert len(found) == 200
    assert sum(len(key[-1]) for key in mine.codes) <= 100_000
    assert 20 <= len(mine.codes) <= 25


def test_a_huge_nested_part_is_refused_and_not_kept() -> None:
    mine = coder()
    huge = decision("x" * 1_000_000)
    wide = lesson.decision("a", lesson.START, 0.8, attributes={f"a{i}": "x" for i in range(10**5)})
    versions = decision(versions={**lesson.VERSIONS, "judge": "j" * 1_000_000})
    found, refused = read(mine, decision(), huge, wide, versions)
    assert len(found) == 1
    assert [(one.reason, one.field) for one in refused] == [
        ("too_large", "attributes"), ("too_large", "attributes"), ("too_large", "versions"),
    ]  # fmt: skip
    assert len(mine.codes) == 1
    assert mine.unlisted.estimates()["channel"] == 0


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"channel":'])
def test_deep_nesting_is_refused_and_not_kept(opening: str) -> None:
    mine = coder()
    for depth in (10, 500, 50_000):
        text = json.dumps(decision()).replace('{"channel": "chat"}', opening * depth)
        found, refused = read(mine, text.encode())
        assert not found
        assert refused[0].reason in ("malformed_json", "wrong_type", "too_large")
    assert not mine.codes


LOOKALIKES = [
    "Chat", "CHAT", " chat", "chat ", "chat\u200b", "\ufeffchat", "ch\u0430t", "\uff43hat",
    "chat\x00", "chat\n", "\u202echat", "cha\u0301t",
    "cafe", "chat,release=j1", "channel=chat", "", "__other__", "__missing__", "__OTHER__",
]  # fmt: skip


def test_a_text_that_is_composed_otherwise_is_the_same_text() -> None:
    found, _ = read(coder(), decision(unicodedata.normalize("NFD", "caf\u00e9")))
    assert found == ["channel=caf\u00e9,release=j1"]


@pytest.mark.parametrize("value", LOOKALIKES)
def test_only_the_very_text_of_a_listed_value_is_that_value(value: str) -> None:
    """A producer cannot send what we call unlisted or missing either: both are unlisted values."""
    mine = coder()
    found, refused = read(mine, decision(value))
    assert not refused
    assert found == ["channel=__other__,release=j1"]
    assert mine.unknown_values(np.array([0])) == {"channel": 1}
    assert mine.unlisted.estimates()["channel"] == 1


def test_the_same_value_written_with_escapes_is_the_same_value() -> None:
    text = json.dumps(decision()).replace("chat", "\\u0063hat")
    mine = coder()
    assert read(mine, text.encode(), decision())[0] == ["channel=chat,release=j1"] * 2
    assert mine.unlisted.estimates()["channel"] == 0


@pytest.mark.parametrize("name", ["__other__", "__missing__"])
def test_our_own_names_are_no_version(name: str) -> None:
    _, refused = read(coder(), decision(versions={**lesson.VERSIONS, "judge": name}))
    assert [(one.reason, one.field) for one in refused] == [("wrong_type", "versions")]


def test_distinct_unlisted_values_are_counted_each_day_anew() -> None:
    mine = coder()
    read(mine, *(decision(f"value {i % 30}") for i in range(300)))
    assert mine.unlisted.estimates()["channel"] == 30
    mine.begin_day()
    assert mine.unlisted.estimates()["channel"] == 0
    read(mine, decision("value 3"))
    assert mine.unlisted.estimates()["channel"] == 1


def test_versions_of_events_that_count_nowhere_do_not_reach_the_store() -> None:
    """A clock may refuse what was decoded: no row of the dictionary is to stand for it."""
    mine = coder()
    records = RecordBatch(Shard("d", 0), [0], [json.dumps(decision()).encode()], [0])
    DecisionCodec(mine, CODING).read(records, DeadLetterBuffer(records, HASHER))
    assert not mine.dictionary.versions
    read(mine, decision())
    assert len(mine.dictionary.versions) == 1
