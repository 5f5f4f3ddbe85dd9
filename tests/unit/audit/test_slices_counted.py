"""Rows of an audit as counts: by hand, and as cells of the service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from audited import real_settings, results, settings
from matched import BLOCKED, REVIEWED, SERVED, VARIETY, VERSIONS, row, seen, ten_pairs, varieties

from monitor.audit.audit_run import check_listed, contract_of, use_case_of
from monitor.audit.inputs import Row
from monitor.audit.slices import atom_of, audit_coding, count, without_gate
from monitor.core.contract import Contract
from monitor.core.counts.cells import Counter, decode_strata
from monitor.core.counts.coding import Attribute, Coding
from monitor.core.counts.rollup import roll_up
from monitor.core.counts.strata import post_strata
from monitor.errors import AuditError
from monitor.settings import Settings

CODING = audit_coding(settings().coding)


def rows() -> list[Row]:
    return [row for pair in ten_pairs() for row in pair.rows]


def contract(**more: Any) -> Contract:
    return contract_of(settings(**more).use_case[0], synthetic=True)


class TestCount:
    def test_everything_is_labelled_by_what_is_expected(self) -> None:
        counts = count(rows(), CODING)
        totals = counts.counts.values.sum(axis=0)
        assert [totals[c] for c in (Counter.N, Counter.Q, Counter.LABELLED)] == [20, 20, 20]
        assert totals[Counter.READY] == 12

    def test_slices_add_up(self) -> None:
        counts = count(rows(), CODING)
        rolled = roll_up(counts.counts, counts.index, (VARIETY,))
        assert rolled.slices == (f"{VARIETY}=conversational", f"{VARIETY}=formal")
        # (N, labelled, ready) x (auto_serve, human_review) x slices
        assert post_strata(rolled, CODING).totals.tolist() == [
            [[3, 6], [7, 4]],
            [[3, 6], [7, 4]],
            [[3, 5], [3, 1]],
        ]

    def test_strata_are_those_of_the_service(self) -> None:
        stopped = varieties("p1", seen(0.95, passed=False), seen(None, route=REVIEWED))
        counts = count(stopped.rows, CODING)
        strata = decode_strata(counts.index.strata)
        found = sorted(
            zip(
                strata.route.tolist(),
                strata.band.tolist(),
                strata.rate.tolist(),
                strata.evidence_passed.tolist(),
                strata.probe.tolist(),
                strict=True,
            )
        )
        no_score = CODING.bands - 1
        assert found == [(REVIEWED, no_score, 0, True, False), (BLOCKED, 2, 0, False, False)]
        assert CODING.audit_rates == (1.0,)

    def test_no_rows(self) -> None:
        assert len(count([], CODING).counts.keys) == 0


class TestAtom:
    def test_missing_and_taken_from_versions(self) -> None:
        judge = Attribute("judge_version", ("j1",), version_of="judge")
        coding = Coding((Attribute("channel", ("chat",)), judge))
        here = row("p1", "a", {}, seen(0.8))
        assert atom_of(here, coding) == "channel=__missing__,judge_version=j1"
        other = replace(here, versions=replace(VERSIONS, judge="j9"))
        assert atom_of(other, coding) == "channel=__missing__,judge_version=__other__"


def test_without_the_gate_what_it_stopped_was_not_served() -> None:
    given = varieties("p1", seen(0.95, passed=False), seen(0.8)).rows
    conversational, formal = (one.observed for one in without_gate(given))
    assert conversational == given[0].observed
    assert (formal.route, formal.evidence_passed, formal.score) == (REVIEWED, True, 0.95)
    odd = row("p1", "a", {}, seen(0.9, route=SERVED, passed=False))
    assert without_gate([odd])[0].observed == seen(0.9)


class TestUseCase:
    def two(self) -> Settings:
        one = settings()
        (case,) = one.use_case
        other = type(case)(name="other", owner="x", contract=case.contract, group_bys=(), k=1)
        return type(one)(use_case=(case, other))

    def test_the_only_one_or_the_one_that_is_named(self) -> None:
        assert use_case_of(settings(), None).name == "replies"
        assert use_case_of(self.two(), "other").name == "other"

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            (None, "the settings have 2 use cases; give --use-case with one of replies, other"),
            (
                "nobody",
                "use case 'nobody': is not in the settings; "
                "give --use-case with one of replies, other",
            ),
        ],
    )
    def test_else_an_error(self, name: str | None, text: str) -> None:
        with pytest.raises(AuditError) as caught:
            use_case_of(self.two(), name)
        assert str(caught.value) == text


class TestSmallestCell:
    @pytest.mark.parametrize("one", [settings(), settings(k=11), real_settings()])
    def test_a_synthetic_set_is_shown_exactly(self, one: Settings) -> None:
        found = contract_of(one.use_case[0], synthetic=True)
        assert (found.synthetic, found.k) == (True, 1)

    @pytest.mark.parametrize(("k", "used"), [(11, 11), (20, 20), (3, 11)])
    def test_real_people_are_guarded_whatever_the_settings_say(self, k: int, used: int) -> None:
        found = contract_of(real_settings(k=k).use_case[0], synthetic=False)
        assert (found.synthetic, found.k) == (False, used)

    def test_real_people_under_a_synthetic_use_case(self) -> None:
        with pytest.raises(AuditError, match="the set is of real people; choose one of real"):
            contract_of(settings(k=11).use_case[0], synthetic=False)


class TestListed:
    def error(self, attributes: dict[str, Any], *, synthetic: bool = True, **more: Any) -> str:
        pair = varieties("p1", seen(0.8), seen(0.8), **attributes)
        one = settings(**more)
        with pytest.raises(AuditError) as caught:
            check_listed(results([pair], synthetic=synthetic), one.coding, contract(**more))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_what_is_listed_passes(self) -> None:
        check_listed(results(ten_pairs()), CODING, contract())

    def test_an_attribute_that_is_not(self) -> None:
        assert self.error({"dialect": "swabian"}) == (
            "results, line 1, field attributes.dialect: is not allow-listed; "
            "add an [[attribute]] to the settings or remove it from the set"
        )

    def test_a_value_that_is_not(self) -> None:
        assert self.error({"channel": "fax"}) == (
            "results, line 1, field attributes.channel: 'fax' is not allow-listed; "
            "use one of chat, email"
        )

    def test_values_of_real_people_are_not_repeated(self) -> None:
        text = self.error({"channel": "fax"}, synthetic=False)
        assert text == (
            "results, line 1, field attributes.channel: its value is not allow-listed; "
            "use one of chat, email"
        )

    def test_an_attribute_that_is_taken_from_versions(self) -> None:
        judge = Attribute("judge_version", ("j1",), version_of="judge")
        coding = replace(CODING, attributes=(*CODING.attributes, judge))
        pair = varieties("p1", seen(0.8), seen(0.8), judge_version="j1")
        with pytest.raises(AuditError, match=r"taken from versions\.judge; remove it"):
            check_listed(results([pair]), coding, contract())

    def test_rows_of_another_use_case(self) -> None:
        assert self.error({"channel": "email"}, where={"channel": "chat"}) == (
            "results, line 1, field attributes.channel: use case 'replies' is about channel=chat; "
            "remove the row or choose another"
        )
