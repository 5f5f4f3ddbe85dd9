"""Evaluator and the policies of detection, back-tests and health, from the settings."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from monitor.composition.store import owner_name
from monitor.core.probes.rounds import DeclaredSet
from monitor.core.quiet_times import QuietTime
from monitor.evaluate.backtest import BacktestPolicy
from monitor.evaluate.evaluator import Evaluator
from monitor.evaluate.policy import EvaluatorPolicy
from monitor.ports import Clock
from monitor.settings import ProbesSettings, Settings
from monitor.settings.kinds import ALWAYS_QUIET
from monitor.store.codings import Codings
from monitor.store.evaluator.store import EvaluatorStore
from monitor.store.upkeep.service_health import HealthPolicy


def declared_sets(probes: ProbesSettings) -> list[DeclaredSet]:
    """Return a DeclaredSet for each probe set in the settings."""
    return [
        DeclaredSet(
            **msgspec.structs.asdict(declared) | {"max_flip_ratio": float(declared.max_flip_ratio)},
            reference=declared.variants[0],
        )
        for declared in probes.sets
    ]


def build_evaluator(settings: Settings, engine: sa.Engine, clock: Clock) -> Evaluator:
    """Return the evaluator of this database, with its policy taken from the settings."""
    stream = settings.stream
    policy = EvaluatorPolicy(
        owner=owner_name(),
        lease=settings.evaluate.lease,
        horizon=stream.horizon,
        lateness=stream.lateness,
        completeness=settings.evaluate.completeness,
        eras=Codings(engine).eras(settings.coding),
        contracts=settings.contracts,
        live=stream.clock == "live",
        cluster_size=settings.detection.cluster_size,
        probes=declared_sets(settings.probes),
        timezone=settings.report.timezone,
        aggregates=settings.retention.aggregates,
    )
    store = EvaluatorStore(engine, stream.decisions_topic)
    return Evaluator(store, policy, clock)


def backtest_policy(
    settings: Settings, engine: sa.Engine, since: int | None, until: int | None
) -> BacktestPolicy:
    """Return the BacktestPolicy that tries these contracts on cohorts from since to until."""
    return BacktestPolicy(
        contracts=settings.contracts,
        eras=Codings(engine).eras(settings.coding),
        completeness=settings.evaluate.completeness,
        cluster_size=settings.detection.cluster_size,
        since=since,
        until=until,
    )


def health_policy(settings: Settings, pace: float = 1.0) -> HealthPolicy:
    """Return the HealthPolicy by which the whole service is judged: topics, lateness, quiet times.

    Args:
        settings: settings of the service.
        pace: seconds of event time per second; more than 1 only in a simulation.
    """
    stream = settings.stream
    return HealthPolicy(
        live=stream.clock == "live",
        lateness=stream.lateness,
        topics=stream.topics,
        pace=pace,
        expects_decisions=stream.expects_decisions,
        quiet=[QuietTime.named(text) for text in stream.quiet if text != ALWAYS_QUIET],
        zone=settings.report.timezone,
    )
