"""The page on what leaves the service, as the surface table has it.

Run as a program, it puts the tables into ``deploy/docs/surfaces.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from surface_types import Row, Surface
from surfaces import TABLE

from alerts.exposition.catalogue import OF_DECISIONS
from monitor.core.privacy.rules import PrivacyRule as Rule

MANUAL = Path(__file__).parents[2] / "deploy" / "docs" / "surfaces.md"
BEGIN, END = "<!-- generated: surfaces -->\n", "<!-- end -->\n"
WHERE = {
    Surface.METRIC: "Metrics, on both ports",
    Surface.SNAPSHOT: "The Snapshot: what the pages are made of, and `--json` prints",
    Surface.PUBLISHED: "The tables of the reporter's login",
    Surface.DEMO: "`slicewatch demo --json`",
    Surface.STATUS: "`slicewatch db status --json`",
    Surface.DEAD_LETTER: "`slicewatch db dead-letters`",
    Surface.RECEIVED: "Answers of `POST /v1/events`, to whoever sent the events",
    Surface.INCIDENT: "Incidents: `slicewatch incident list --json`, pages and API",
    Surface.PAGE: "The status page, its files and the API, beside Snapshots and incidents",
    Surface.REPORT: "`slicewatch report`, in every format, beside the tables of a Snapshot",
    Surface.BACKTEST: "`slicewatch backtest`, with `--propose` too",
    Surface.PROBES: "`slicewatch probe status --json`",
    Surface.AUDIT: "`slicewatch audit`, in every format",
    Surface.LOG: "Log lines",
    Surface.LATER: "Not exported",
}


def tables() -> str:
    """Return the rules, then every name by surface."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "| rule | meaning |"
    yield "|---|---|"
    for rule in Rule:
        yield f"| {_word(rule.name)} | {rule.value} |"
    for surface, title in WHERE.items():
        yield f"\n## {title}\n"
        if surface is Surface.METRIC:
            yield _of_decisions()
        yield "| name | rule | how, or why |"
        yield "|---|---|---|"
        groups: dict[tuple[Rule, str], list[Row]] = {}
        for row in sorted((r for r in TABLE if r.surface is surface), key=_by_rule):
            groups.setdefault((row.rule, row.why), []).append(row)
        for (rule, why), rows in groups.items():
            yield f"| {', '.join(map(_name, rows))} | {_word(rule.name)} | {why} |"
    yield ""


def _of_decisions() -> str:
    """Return which metrics without a slice are for readers of slices alone."""
    names = ", ".join(f"`{family.name}`" for family in OF_DECISIONS)
    return f"About decisions, so on the fairness port like the metrics of slices: {names}.\n"


def _by_rule(row: Row) -> int:
    return [*Rule].index(row.rule)


def _name(row: Row) -> str:
    plain = row.name.partition("; ")[0] if row.surface is Surface.LOG else row.name
    return plain if row.surface is Surface.LATER else f"`{plain}`"


def _word(name: str) -> str:
    return name.lower().replace("_", " ")


def written(manual: str) -> str:
    """Return the page with the tables as they must be."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    return pattern.sub(lambda _: BEGIN + tables() + END, manual)


if __name__ == "__main__":
    MANUAL.write_text(written(MANUAL.read_text()))
