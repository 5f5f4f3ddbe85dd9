"""An attribute that is a version of the router: only an event's versions say what it is."""

from __future__ import annotations

import json
from typing import Any

import lesson
import numpy as np
import pytest

from consumers.codec import DecisionCodec
from consumers.coder import Coder
from consumers.dead_letters import DeadLetterBuffer, IdHasher
from monitor.core.counts.coding import Attribute, Coding, CodingHistory, CodingVersion
from monitor.core.time import HOUR, to_micros
from monitor.records import RecordBatch, Shard

RELEASE = Attribute(
    "release", ("stable", "canary"), "policy", (("p-41", "stable"), ("p-42", "canary"))
)
CODING = Coding((Attribute("channel", ("chat",)), RELEASE))


def of(eras: CodingHistory) -> Coder:
    return Coder(eras, max_versions=64)


def always() -> Coder:
    return of(CodingHistory.always(CODING))


def decision(versions: Any, attributes: dict[str, Any] | None = None, hour: int = 0) -> Any:
    own = {"channel": "chat"} if attributes is None else attributes
    moment = lesson.START.replace(hour=10 + hour)
    return lesson.decision("a", moment, 0.8, attributes=own) | {"versions": versions}


def read(coder: Coder, *events: Any) -> tuple[list[str], list[tuple[str, str]]]:
    """Releases of the atoms that the events are counted in, and what was refused."""
    batch = RecordBatch(
        Shard("decisions", 0),
        list(range(len(events))),
        [json.dumps(one).encode() for one in events],
        [0] * len(events),
    )
    letters = DeadLetterBuffer(batch, IdHasher.with_key(b"key"))
    got = DecisionCodec(coder, CODING).read(batch, letters)
    cells = coder.cells(got.codes, got.bands, got.ts).tolist()
    known = coder.dictionary
    atoms = [known.atoms[known.cells[cell][0]] for cell in cells]
    return (
        [atom.removeprefix("channel=chat,release=") for atom in atoms],
        [(one.reason, one.field) for one in letters.found],
    )


@pytest.mark.parametrize(
    ("versions", "release"),
    [
        ({"policy": "p-41"}, "stable"),
        ({"policy": "p-42", "judge": "j1"}, "canary"),
        ({"policy": "canary"}, "canary"),  # a listed value means itself
        ({"policy": "p-43"}, "__other__"),
        ({"policy": None}, "__missing__"),
        ({"judge": "p-42"}, "__missing__"),
        (None, "__missing__"),  # a router of rules has no versions
    ],
)
def test_the_version_decides_the_release(versions: Any, release: str) -> None:
    assert read(always(), decision(versions)) == ([release], [])
    unreadable: dict[str, Any] = {}  # beside one, each event is read by itself
    assert read(always(), unreadable, decision(versions))[0] == [release]


@pytest.mark.parametrize("sent", ["canary", "p-42", "stable", None, {"deep": []}])
def test_an_event_s_own_attribute_of_that_name_moves_nothing(sent: Any) -> None:
    """It is dropped unread and counted by name, as every attribute that is not declared."""
    coder = always()
    event = decision({"policy": "p-41"}, {"channel": "chat", "release": sent})
    assert read(coder, event) == (["stable"], [])
    assert read(coder, decision(None, {"channel": "chat", "release": sent})) == (
        ["__missing__"],
        [],
    )
    codes = [0, 1]
    assert coder.dropped(_codes(codes)) == {"attributes.release": 2}


def _codes(codes: list[int]) -> Any:
    return np.array(codes, np.int64)


def test_a_release_that_nobody_listed_is_counted_and_estimated() -> None:
    """Otherwise a new version would fall into ``__other__`` without a sign."""
    coder = always()
    read(coder, *(decision({"policy": f"p-{number}"}) for number in (41, 43, 43, 44)))
    assert coder.unlisted.estimates() == {"channel": 0, "release": 2}
    assert coder.unknown_values(_codes([0, 1, 1, 2])) == {"release": 3}


def test_unlisted_releases_are_remembered_like_listed_ones() -> None:
    """There are at most as many as version tuples: they take no room of what is made up."""
    coder = always()
    read(coder, *(decision({"policy": f"p-{number}"}) for number in (43, 44)))
    assert coder._stray_bytes == 0
    read(coder, decision({"policy": "p-43"}, {"channel": "fax"}))
    assert coder._stray_bytes > 0


def test_other_aliases_hold_from_their_era_on() -> None:
    """The canary becomes stable: what was counted before stays what it was."""
    promoted = Attribute(
        "release", ("stable", "canary"), "policy", (("p-42", "stable"), ("p-43", "canary"))
    )
    later = Coding((Attribute("channel", ("chat",)), promoted))
    start = to_micros(lesson.START.replace(hour=11, minute=0, second=0, microsecond=0))
    assert start % HOUR == 0
    coder = of(CodingHistory((CodingVersion(0, CODING), CodingVersion(start, later))))
    events = [decision({"policy": p}, hour=h) for h in (0, 1) for p in ("p-41", "p-42", "p-43")]
    released, _ = read(coder, *events)
    assert released == ["stable", "canary", "__other__", "__other__", "stable", "canary"]


def test_a_coding_says_which_attributes_mean_something_else() -> None:
    other = Coding((Attribute("channel", ("chat",)), Attribute("release", RELEASE.values)))
    assert CODING.means_otherwise(other) == ("release",)
    assert CODING.means_otherwise(Coding((RELEASE,))) == ()
