"""What a runbook says, apart from how it is laid out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runbook:
    """What to do about one alert.

    Attributes:
        means: what has happened, in a few sentences.
        monitor: first question: how to tell that it is the monitor.
        sampler: second: that it is the sampling of labels, or the labels.
        router: third: that it is the router, or what sends to it.
        owner: who owns it.
        safe: moves that make nothing worse.
        wrong: moves that do.
        silence: matchers of the ready line beside the alert's name, with capitals to fill in.
    """

    means: str
    monitor: str
    sampler: str
    router: str
    owner: str
    safe: tuple[str, ...]
    wrong: tuple[str, ...]
    silence: tuple[str, ...] = ()
