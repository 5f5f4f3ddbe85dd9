"""Notices that nearly everything a topic brings is unreadable."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from monitor.errors import PoisonedStreamError
from monitor.ports import Shard


@dataclass(slots=True)
class _Run:
    judged: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class PoisonWatch:
    """Judges each topic by itself, so that a small one cannot hide behind a large one.

    Attributes:
        share: stop when more than this share is unreadable,
        min_events: among at least so many events.
    """

    share: float
    min_events: int
    _runs: dict[str, _Run] = field(default_factory=dict)

    def saw(self, shard: Shard, events: int, refused: Counter[str]) -> None:
        """Judge what one batch of a shard brought.

        Raises:
            PoisonedStreamError: a wrong producer or wrong settings; nothing may be stored now.
        """
        run = self._runs.setdefault(shard.topic, _Run())
        run.judged += events
        run.reasons.update(refused)
        if run.judged < self.min_events:
            return
        bad = run.reasons.total()
        if bad > self.share * run.judged:
            usual = run.reasons.most_common(1)[0][0]
            raise PoisonedStreamError(
                f"{bad / run.judged:.0%} of the last {run.judged} events of topic {shard.topic} are"
                f" unreadable, mostly {usual}; nothing since the last flush was stored. Compare the"
                " producer with the settings and start again"
            )
        self._runs[shard.topic] = _Run()
