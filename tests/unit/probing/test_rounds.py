"""One round of a set: what is sent in which order, and what is told on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
from probing import VERSIONS, MemoryRouter, StillClock, Watched, answer, probe_set

from monitor.audit.inputs import ProbeSet
from monitor.commands.probe.access import exit_code
from monitor.core.counts.cells import Route
from monitor.probing.protocol import Answer, Failure, FailureKind, Probe
from monitor.probing.rounds import HOPELESS, Answered, Pace, Retries, Round, Runner, Sender

BROKEN = Failure(FailureKind.STATUS, "answered 500")


class Play:
    """A round against a router in memory."""

    def __init__(
        self,
        decide: Callable[[Probe], Answer | Failure] = lambda _: answer(),
        sent: ProbeSet | None = None,
        *,
        seed: int = 7,
        stop_after: float | None = None,
    ) -> None:
        self.clock = StillClock(seconds=0.0, stop_after=stop_after)
        self.router = MemoryRouter(decide, self.clock)
        self.published: list[tuple[str, Sequence[Answered]]] = []
        self.watched = Watched()
        pace = Pace(10, self.clock.monotonic, self.clock)
        self.runner = Runner(
            sent or probe_set(),
            "d" * 64,
            Sender(self.router, pace, Retries(attempts=1)),
            clock=self.clock,
            rng=np.random.default_rng(seed),
            publish=lambda pair, answered: self.published.append((pair, answered)),
        )

    def round(self) -> Round:
        return self.runner.round(self.watched)


def order(play: Play) -> list[tuple[str, str]]:
    return [(one.pair, one.variant) for one in play.router.probes]


def test_every_variant_is_sent_once_as_the_set_has_it() -> None:
    sent = probe_set()
    play = Play(sent=sent)
    done = play.round()
    assert sorted(order(play)) == [(one.pair, one.variant) for one in sent.items]
    fields = {(one.pair, one.variant): one for one in sent.items}
    for one in play.router.probes:
        item = fields[one.pair, one.variant]
        assert (one.probe_set, one.attributes, one.request) == (
            "d" * 64,
            item.attributes,
            item.request,
        )
    assert (done.pairs, done.complete, done.sound, done.fruitless) == (3, 3, True, False)
    assert play.watched.pairs == 3


def test_variants_of_a_pair_follow_each_other() -> None:
    play = Play(sent=probe_set(40, ("a", "b", "c")))
    play.round()
    assert len([pair for pair, _ in groupby(order(play), key=lambda one: one[0])]) == 40


def test_pairs_and_the_variants_in_them_are_in_random_order() -> None:
    play = Play(sent=probe_set(200))
    play.round()
    seen = order(play)
    assert seen != sorted(seen)
    first = Counter(variant for _, variant in seen[::2])
    assert 70 < first["formal"] < 130  # 5 standard deviations around 100 are 65 to 135
    play.round()
    assert order(play)[400:] != seen


def test_the_seed_repeats_an_order() -> None:
    plays = [Play(sent=probe_set(20), seed=seed) for seed in (3, 3, 4)]
    for play in plays:
        play.round()
    assert order(plays[0]) == order(plays[1]) != order(plays[2])


def test_a_pair_is_published_when_it_is_over_with_the_time_of_its_answers() -> None:
    play = Play()
    play.round()
    assert sorted(pair for pair, _ in play.published) == ["p000", "p001", "p002"]
    at = [one.at for _, answered in play.published for one in answered]
    assert at == [0, 100_000, 200_000, 300_000, 400_000, 500_000]


def test_a_variant_without_an_answer_is_left_out_and_said() -> None:
    def decide(probe: Probe) -> Answer | Failure:
        return BROKEN if (probe.pair, probe.variant) == ("p001", "plain") else answer()

    play = Play(decide)
    done = play.round()
    published = {pair: [one.item.variant for one in some] for pair, some in play.published}
    assert published["p001"] == ["formal"]
    assert sorted(published["p002"]) == ["formal", "plain"]
    assert play.watched.lines == ["p001/plain: the router answered 500"]
    assert (done.complete, done.incomplete) == (2, 1)
    assert done.failures == {FailureKind.STATUS: 1}
    assert not done.sound
    assert not done.fruitless


def test_a_pair_decided_by_different_versions_is_no_match() -> None:
    def decide(probe: Probe) -> Answer | Failure:
        new = (probe.pair, probe.variant) == ("p001", "plain")
        return answer(versions=VERSIONS | {"judge": "j2"}) if new else answer()

    play = Play(decide)
    done = play.round()
    assert sorted(pair for pair, _ in play.published) == ["p000", "p002"]
    assert play.watched.lines == ["p001: mixed"]
    assert (done.complete, done.mixed, done.sound, done.fruitless) == (2, 1, False, False)
    assert {row.item.pair for row in done.rows()} == {"p000", "p002"}


def test_pairs_whose_variants_took_different_routes_are_counted() -> None:
    def decide(probe: Probe) -> Answer | Failure:
        held = probe.variant == "plain" and probe.pair != "p000"
        return answer(route="human_review", judge_score=0.6) if held else answer()

    assert Play(decide).round().apart == 2


def test_rows_are_results_in_the_order_of_the_set() -> None:
    play = Play()
    rows = play.round().rows()
    assert [(row.item.pair, row.item.variant) for row in rows] == sorted(order(play))
    assert [row.line for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {row.observed.route for row in rows} == {Route.AUTO_SERVE}
    assert {row.versions.judge for row in rows} == {"j1"}


def test_a_hopeless_round_is_given_up() -> None:
    play = Play(lambda _: BROKEN, probe_set(50))
    done = play.round()
    assert len(play.router.probes) == HOPELESS
    assert (done.given_up, done.fruitless, done.incomplete) == (True, True, HOPELESS // 2)
    assert not play.published


def test_a_round_that_follows_a_hopeless_one_begins_anew() -> None:
    play = Play(lambda _: answer() if len(play.router.probes) > HOPELESS else BROKEN, probe_set(50))
    assert play.round().given_up
    assert play.round().complete == 50


def test_failures_now_and_then_do_not_end_a_round() -> None:
    play = Play(lambda _: BROKEN if len(play.router.probes) % 3 else answer(), probe_set(60))
    done = play.round()
    assert len(play.router.probes) == 120
    assert done.failures == {FailureKind.STATUS: 80}
    assert not done.fruitless


def test_a_small_set_without_any_answer_is_fruitless() -> None:
    done = Play(lambda _: BROKEN, probe_set(1)).round()
    assert (done.given_up, done.fruitless) == (False, True)


def test_half_a_pair_is_not_published_when_asked_to_end() -> None:
    play = Play(stop_after=0.3)
    done = play.round()
    assert len(play.router.probes) == 3
    assert len(play.published) == 1
    assert (done.stopped, done.complete, done.sound) == (True, 1, True)
    assert exit_code(done) == 1, "not every variant was answered"
    assert len(done.rows()) == 2
