"""Worlds for the claim on false pages: labels vanish, or come late, or requests come in clusters.

Each slice in question has as many decisions a day as in a fleet of 30 slices and 20,000 decisions,
of which it is 3 to 20 %; the others are seven instead of 29, since all is counted from raw events.
The score tells ready replies from others no better than a judge does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from adversary.worlds import REVIEW
from unlabelled import BLURRED, Labelling, fleet, loses, skips_reviews

SLICES, A_DAY, DAYS, BREAK = 8, 8_000, 24, 8
AT_LIMIT = 0.10
"""A TPR gap of the first slice that keeps the contract, and no more than that."""


@dataclass(frozen=True)
class Stall:
    """A partition of the labels' topic that delivers nothing for some days, then everything.

    Attributes:
        partition: which.
        since: day.
        until: day.
    """

    partition: int
    since: float
    until: float


@dataclass(frozen=True)
class LabelWorld:
    """A world, and what is to be expected of it.

    Attributes:
        name: as it is printed.
        labelling: all that happens.
        breached: slices whose TPR is beyond the limit from ``labelling.gap_from`` on.
        faulty: slices of which labels are missing or not requested.
        since: day from which they are.
        stall: of a partition of labels.
        units: whether decisions name their sender.
        covered: whether the claim holds here; where it does not, its figure is a warning.
        limits: lines that its contract has besides the usual ones.
    """

    name: str
    labelling: Labelling
    breached: tuple[int, ...] = ()
    faulty: tuple[int, ...] = ()
    since: int = BREAK
    stall: Stall | None = None
    units: bool = False
    covered: bool = True
    limits: str = ""

    def seeded(self, seed: int) -> LabelWorld:
        """The same with other draws."""
        return replace(self, labelling=replace(self.labelling, seed=seed))


@dataclass(frozen=True)
class Sizes:
    """How much there is of each world.

    Attributes:
        slices: number of them.
        a_day: decisions of all.
        days: simulated time.
        breaks: day from which something is wrong.
    """

    slices: int = SLICES
    a_day: int = A_DAY
    days: int = DAYS
    breaks: int = BREAK

    def labelling(self, share: float = 1 / SLICES, gap: float = 0.0) -> Labelling:
        """The first slice has this share, and its TPR is so much lower from the first day on."""
        return Labelling(
            fleet(share, self.slices), gaps={0: gap}, a_day=self.a_day, days=self.days,
            scores=BLURRED,
        )  # fmt: skip


def catalogue(sizes: Sizes = Sizes()) -> list[LabelWorld]:
    """All of them."""
    every = (*_known(sizes), *_further(sizes))
    return [replace(one, since=sizes.breaks) for one in every]


def _known(sizes: Sizes) -> Iterable[LabelWorld]:
    """Those in which the claim was once broken."""
    day, make = sizes.breaks, sizes.labelling
    opened = replace(make(), gaps={0: 0.30}, gap_from=day)
    yield LabelWorld("nothing is lost; gap .10", make(gap=AT_LIMIT))
    for share in (0.125, 0.075):
        lost = replace(make(share), lost=(loses(0, 1, day),))
        yield LabelWorld(f"{share * sizes.a_day:,.0f} a day lose all audits", lost, faulty=(0,))
    for share, part, gap in ((0.25, 0.40, 0.10), (0.40, 0.24, 0.10), (0.125, 0.50, 0.05)):
        lost = replace(make(share, gap), lost=(loses(0, part, day),))
        many = f"{share * sizes.a_day:,.0f} a day lose {100 * part:.0f} % of their audits"
        name = f"{many}; gap .{100 * gap:02.0f}"
        yield LabelWorld(name, lost, faulty=(0,))
    yield LabelWorld(f"nothing is lost; gap .30 from day {day}", opened, breached=(0,))
    scattered = tuple(loses(row, 0.08, 0) for row in range(sizes.slices))
    yield LabelWorld(
        f"8 % of all audits never come; gap .30 from day {day}",
        replace(opened, lost=scattered),
        breached=(0,),
    )
    unasked = replace(make(0.075), gaps={1: 0.30}, gap_from=day, skips=(loses(0, 1, day),))
    name = f"600 a day are not audited any more; another's gap .30 from day {day}"
    yield LabelWorld(name, unasked, breached=(1,), faulty=(0,))
    for name, part in (("loses all", 1.0), ("loses half of", 0.5)):
        quarter = replace(make(0.25), gaps={1: 0.30}, gap_from=day + 8)
        yield LabelWorld(
            f"a quarter of the traffic {name} its audits; another's gap .30 from day {day + 8}",
            replace(quarter, lost=(loses(0, part, day),)),
            breached=(1,),
            faulty=(0,),
        )
    slow = replace(opened, slow=(1, 5), days=opened.days + 8)
    yield LabelWorld(
        f"labels take 1 to 5 days, 8 % never come; gap .30 from day {day}",
        replace(slow, lost=scattered),
        breached=(0,),
    )
    stopped = replace(slow, gaps={1: 0.30}, gap_from=day + 4, lost=(loses(0, 1, day),))
    name = f"labels take 1 to 5 days, a slice's stop; another's gap .30 from day {day + 4}"
    yield LabelWorld(name, stopped, breached=(1,), faulty=(0,))
    held_back = replace(make(0.02), gaps={0: 0.82}, gap_from=day)
    name = f"a fiftieth of the traffic is hardly served from day {day} on"
    yield LabelWorld(name, held_back, breached=(0,))
    seldom = replace(make(), skips=(loses(0, 0.4, day),))
    yield LabelWorld("audited at .03 where .05 is said", seldom, faulty=(0,))
    hard = replace(make(), gaps={0: 0.13}, lost=(skips_reviews(0, 0.3, 0, ready=True),))
    yield LabelWorld("30 % of a slice's ready reviews are skipped; gap .13", hard, breached=(0,))


def _further(sizes: Sizes) -> Iterable[LabelWorld]:
    day, at_limit = sizes.breaks, sizes.labelling(gap=AT_LIMIT)
    clusters = replace(at_limit, alike=50)
    yield LabelWorld("50 requests alike of a sender, with `unit`; gap .10", clusters, units=True)
    yield LabelWorld("the same without `unit`", clusters, covered=False)
    long = replace(at_limit, lost=(skips_reviews(0, 0.3, day, ready=False),))
    name = "reviewers skip 30 % of a slice's long requests; gap .10"
    yield LabelWorld(name, long, faulty=(0,), covered=False)
    stopped = replace(at_limit, lost=(loses(0, 1, day, route=REVIEW),))
    yield LabelWorld("a language's reviewers stop; gap .10", stopped, faulty=(0,))
    late = replace(at_limit, late={0: 2.0, 1: 4.0})
    yield LabelWorld("a slice's labels take 2 days more, another's 4; gap .10", late)
    stall = Stall(0, day, day + 6)
    name = "one of four partitions of labels stalls for 6 days; gap .10"
    yield LabelWorld(name, at_limit, stall=stall)
    turns = tuple(loses(n % 2, 1, day + 4 * n, day + 4 * n + 4) for n in range(4))
    name = "two slices lose all audits in turn, 4 days each; gap .10"
    yield LabelWorld(name, replace(at_limit, lost=turns), faulty=(0, 1))
