"""Settings with which every rule is rendered: with a probe set, a bias dimension and a judge."""

from __future__ import annotations

from monitor.settings import Settings
from monitor.settings.sections import (
    BiasDimensionSettings,
    JudgeSettings,
    ProbeSetSettings,
    ProbesSettings,
)

_SET = ProbeSetSettings(
    name="tone", digest="5f" * 32, pairs=4, variants=("a", "b")
)  # fmt: skip
DECLARING = Settings(
    probes=ProbesSettings(sets=(_SET,)),
    bias_dimension=(BiasDimensionSettings(name="refusals"),),
    judge=JudgeSettings(model="judge-model"),
)
