"""Fuzz codec and settings for as long as one likes; run it by ``make fuzz [FOR=seconds]``.

Inputs are made by hypothesis, which knows what an event is and shrinks what fails to a few bytes.
A coverage-guided fuzzer would see nothing more: the decoder below is compiled.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/support" / room) for room in ("", "drivers", "worlds", "oracles")]

import psutil  # noqa: E402
from fuzz_codec import SHARED, flood  # noqa: E402
from fuzzing import PROPERTIES  # noqa: E402

TELL_SECONDS = 10.0
FLOOD = 40
"""Batches of a round: the dictionary of values is full after eight rounds and begins anew."""
ENOUGH = 24
"""Rounds below which nothing can be said of memory."""
SLACK = 16 << 20
"""Bytes by which the second half may be larger: allocators keep pages for later."""


def main() -> int:
    """Fuzz; exit code 1 when something escaped, 0 when not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--for", dest="seconds", type=float, default=600.0)
    seconds = parser.parse_args().seconds
    began = time.monotonic()
    tried: Counter[str] = Counter()
    resident: list[int] = []
    next_tell = TELL_SECONDS
    while (spent := time.monotonic() - began) < seconds or not resident:
        for name, one in PROPERTIES.items():
            tried[name] += one.hammer()
        tried["flood"] += flood(FLOOD, seed=random.randrange(2**32))
        resident.append(psutil.Process().memory_info().rss)
        if spent >= next_tell:
            _log(f"{spent:6.0f} s  {_summary(tried, resident)}")
            next_tell = spent + TELL_SECONDS
    grows = _grows(resident)
    verdict = "MEMORY GROWS" if grows else "nothing escaped"
    _log(f"fuzz: {verdict} in {spent:.0f} s: {_summary(tried, resident)}")
    return int(grows)


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _summary(tried: Counter[str], resident: list[int]) -> str:
    counts = ", ".join(f"{number:,} {name}" for name, number in tried.items())
    half = len(resident) // 2
    parts = [max(part, default=0) >> 20 for part in (resident[:half], resident[half:])]
    keys = len(SHARED.coder.codes)
    return f"{counts}; dictionary {keys:,} keys; resident at most {parts[0]}, then {parts[1]} MB"


def _grows(resident: list[int]) -> bool:
    """Whether the second half of the run took more memory than the first ever did."""
    half = len(resident) // 2
    if len(resident) < ENOUGH:
        return False
    return max(resident[half:]) > max(resident[:half]) + SLACK


if __name__ == "__main__":
    sys.exit(main())
