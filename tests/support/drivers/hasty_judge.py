"""``slicewatch judge`` that gives an endpoint three seconds and one try."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

from running import Running

from monitor.__main__ import main
from monitor.judging.judge_protocol import Endpoint


class HastyJudge(Running):
    program = (__file__,)


if __name__ == "__main__":
    with patch("monitor.commands.judge.Endpoint", partial(Endpoint, timeout=3.0, tries=1)):
        main()
