from __future__ import annotations

from fractions import Fraction

from monitor.core.contract import COMPLEMENT
from monitor.core.metric import Metric
from monitor.detection.pages.streams import Direction, Stream, StreamKind


def test_all_of_a_stream_is_in_its_key() -> None:
    gap = Stream(
        "replies-v2.1", "channel+tone", Metric.FPR, StreamKind.GAP, "channel=__other__,tone=a",
        COMPLEMENT, Direction.REFERENCE_WORSE, Fraction(1, 12),
    )  # fmt: skip
    level = Stream(
        "replies",
        "",
        Metric.BLOCKED,
        StreamKind.LEVEL,
        "",
        "",
        Direction.SLICE_WORSE,
        Fraction("0.8"),
    )
    for stream in (gap, level):
        assert Stream.parse(stream.key) == stream
    assert gap.key != level.key
