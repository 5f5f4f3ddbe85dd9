"""The advisory detectors of one contract: what a week of drift is listed over."""

from __future__ import annotations

from fleet_cells import MONDAY, coding, contract

from monitor.core.contract import GroupBy
from monitor.core.counts.cells import OTHER
from monitor.core.metric import Metric
from monitor.detection.advisory.contract_advisor import ContractWatch, KeptParts
from monitor.detection.advisory.finding_log import Drift
from monitor.detection.pages.declared import DetectorSettings

WEEK = 168


def test_the_weekly_list_is_of_as_many_streams_as_share_the_error_rate() -> None:
    """Each rate of each slice of each group-by once; the weights of so many add up to 1."""
    watched = contract(GroupBy(("a",)), GroupBy(("a", "b")))
    settings = DetectorSettings([watched], coding(a="uv", b="xy"))
    watch = ContractWatch.start(watched, settings, KeptParts({}))
    assert not list(watch.enter(MONDAY))
    listed = [stream.subject for stream in watch.enter(MONDAY + WEEK)]
    a, b = (*"uv", OTHER), (*"xy", OTHER)
    slices = {("a", f"a={one}") for one in a} | {("a+b", f"a={x},b={y}") for x in a for y in b}
    rates = (Metric.TPR, Metric.FPR)
    assert set(listed) == {
        Drift(watched.name, group, text, rate) for group, text in slices for rate in rates
    }
    assert len(listed) == watch.streams == 24
