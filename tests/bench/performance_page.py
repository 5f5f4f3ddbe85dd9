"""The tables of deploy/docs/performance.md and deployment.md, rendered from what was measured.

``python tests/bench/performance_page.py`` writes them between their markers; with ``--check`` it
only says whether the pages are what the results render to. ``make bench`` does it at its end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from results import ROOT, kept

DOCS = ROOT / "deploy" / "docs"
PAGES = (DOCS / "performance.md", DOCS / "deployment.md")
BLOCK = re.compile(r"(<!-- measured: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)

AIMS = {
    ("kafka-python", "decisions"): ".70 of the client",
    ("kafka-python", "both"): ".65 of the client",
    ("librdkafka", "decisions"): "100,000",
    ("librdkafka", "both"): "1.2 of the script",
}
CYCLE_AIMS = {
    ("209", "nothing closes"): "4",
    ("209", "five minutes close"): "5",
    ("209", "an hour closes"): "60",
    ("209", "a new day"): "150",
}
RENDERING_AIM = "5"
LOADS = {"decisions": "decisions", "both": "decisions and labels"}
NAMES = {
    "raw": "the client alone",
    "slicewatch": "**slicewatch run**",
    "script": "a script: confluent-kafka, json, dicts",
    "slicewatch replay": "**slicewatch replay**",
    "polars": "polars, files in one batch",
    "duckdb": "DuckDB, files in one batch",
}
TARGET = 1_000_000
"""Decisions a second that sizes are computed for on paper."""
BUSY = 0.7
"""Share of a core that a process is planned to be busy."""
DAY_SECONDS = 86_400

Row = dict[str, Any]


def table(columns: str, rows: Iterable[Sequence[object]]) -> str:
    """Of columns written as ``one | two``."""
    names = columns.split(" | ")
    lines = (names, ["---"] * len(names), *rows)
    return (
        "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
        .replace("|  |", "| |")
        .replace("|  |", "| |")
    )


def ratio(value: float) -> str:
    """As ``.45``, and ``.045``."""
    return f"{value:.2f}".removeprefix("0") if value >= 0.1 else f"{value:.3f}".removeprefix("0")


def provenance(name: str) -> str:
    """Commit, day and machine of a measurement."""
    found = kept(name)
    return f"Measured at commit {found['commit']} on {found['date']}; {found['machine']}."


def run_table(name: str) -> str:
    """What each reader costs."""
    columns = (
        "reads | by | through | events per CPU second | of the client alone | after the start |"
        " of the client alone | aim | CPU s | s to the last commit | peak MB"
    )
    order = list(NAMES)
    rows = sorted(kept(name)["rows"], key=lambda row: (row["load"] == "both", row["client"] == ""))
    groups = [(row["load"], row["client"]) for row in rows]
    rows.sort(key=lambda r: (groups.index((r["load"], r["client"])), order.index(r["reader"])))
    return f"{table(columns, map(_run_cells, rows))}\n\n{provenance(name)}"


def _run_cells(row: Row) -> Sequence[object]:
    own = row["reader"] == "slicewatch"
    ratios = [ratio(row[key]) if own else "" for key in ("ratio", "ratio_running")]
    running = f"{row['running']:,}" if row["starting"] else ""
    return (
        *(LOADS[row["load"]], NAMES[row["reader"]], row["client"] or "files"),
        *(f"{row['per_cpu_second']:,}", ratios[0], running, ratios[1]),
        AIMS[row["client"], row["load"]] if own else "",
        *(
            f"{row['cpu']:.1f}",
            f"{row['stored']:.1f}" if row["stored"] else "",
            f"{row['megabytes']:.0f}",
        ),
    )


def cycles_table() -> str:
    """A refresh by what closes in it."""
    rows = [
        (
            *(one["slices"], one["what closes"], one["cycles"], one["median ms"]),
            *(one["longest ms"], CYCLE_AIMS.get((one["slices"], one["what closes"]), "")),
        )
        for one in kept("refresh")["cycles"]
    ]
    columns = "slices | what closes | cycles | median, ms of CPU | longest | aim"
    return f"{table(columns, rows)}\n\n{provenance('refresh')}"


def rendering_table() -> str:
    """A new page by its series."""
    rows = [
        (one["slices"], one["contracts"], one["series"], one["us each"], RENDERING_AIM)
        for one in kept("refresh")["pages"]
    ]
    return table("slices | contracts | series | us of CPU each | aim", rows)


def as_kept(name: str) -> str:
    """Rows with the columns that they were kept with."""
    rows = kept(name)["rows"]
    cells = table(" | ".join(rows[0]), [tuple(row.values()) for row in rows])
    return f"{cells}\n\n{provenance(name)}"


def memory_table() -> str:
    """Days that are read as fast as they can be."""
    columns = (
        "hours of event time | events read | resident MB | database MB | events per CPU second"
    )
    cells = [
        (
            *(f"{row['hours']:g}", f"{row['events']:,}", row["megabytes"], row["stored"]),
            f"{row['per_cpu_second']:,}",
        )
        for row in kept("memory")["rows"]
    ]
    return f"{table(columns, cells)}\n\n{provenance('memory')}"


def scale_table() -> str:
    """Processes side by side."""
    columns = (
        "client | processes | events/s | against one | us of CPU an event: workers | database |"
        " broker | cores busy | rows inserted an event | log bytes an event | commits/s | peak MB"
    )
    found = kept("scale")["rows"]
    alone = {row["client"]: row["per_second"] for row in found if row["workers"] == 1}
    cells = [_scale_cells(row, alone[row["client"]]) for row in found]
    return f"{table(columns, cells)}\n\n{provenance('scale')}"


def _scale_cells(row: Row, alone: int) -> Sequence[object]:
    events, written = row["events"], row["written"]
    return (
        *(row["client"], row["workers"], f"{row['per_second']:,}"),
        f"{row['per_second'] / alone:.2f}",
        *(f"{micros(row, who):.1f}" for who in ("workers", "database", "broker")),
        f"{sum(row['cpu'].values()) / row['wall']:.2f}",
        *(f"{written['inserted'] / events:.2f}", f"{written['log'] / events:.0f}"),
        *(f"{written['commits'] / row['wall']:.0f}", row["megabytes"]),
    )


def micros(row: Row, who: str) -> float:
    """CPU microseconds an event of the workers, the database or the broker."""
    return 1e6 * float(row["cpu"][who]) / int(row["events"])


def million_table() -> str:
    """What a million decisions a second needs by what one process and the database cost here."""
    (row,) = (one for one in kept("scale")["rows"] if _is_reference(one))
    share = kept("scale")["labels_per_decision"]
    rows = [_million(row, share, labels) for labels in (share, 0.01)]
    columns = (
        "labels a decision | events a second | cores of workers | processes, partitions at least |"
        " cores of the database | rows inserted a second | log a second | rows a day | log a day"
    )
    return table(columns, rows)


def _is_reference(row: Row) -> bool:
    return bool(row["client"] == "librdkafka" and row["workers"] == 1)


def _million(row: Row, measured: float, labels: float) -> Sequence[object]:
    """Rows and log are those of decisions that wait for a label and of labels: by their share."""
    events = TARGET * (1 + labels)
    written, of_labels = row["written"], labels / measured
    per_second = TARGET * (1 + measured) / row["events"] * of_labels
    inserted, log = written["inserted"] * per_second, written["log"] * per_second
    cores = micros(row, "workers") * events / 1e6
    database = micros(row, "database") * TARGET * (1 + measured) * of_labels / 1e6
    return (
        *(f"{labels:.2f}", f"{events / 1e6:.2f} million", f"{cores:,.0f}"),
        *(f"{cores / BUSY:,.0f}", f"{database:,.1f}", f"{inserted / 1e3:,.0f} thousand"),
        *(f"{log / 1e6:,.0f} MB", f"{inserted * DAY_SECONDS / 1e9:,.1f} thousand million"),
        f"{log * DAY_SECONDS / 1e12:,.1f} TB",
    )


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "run": ("run", lambda: run_table("run")),
    "small": ("small", lambda: run_table("small")),
    "cycles": ("refresh", cycles_table),
    "rendering": ("refresh", rendering_table),
    "growth": ("growth", lambda: as_kept("growth")),
    "beside": ("beside", lambda: as_kept("beside")),
    "memory": ("memory", memory_table),
    "scale": ("scale", scale_table),
    "million": ("scale", million_table),
}
"""Each table: the result that it is of, and how it is rendered."""


def rendered(page: str) -> str:
    """A page with all its tables; an unknown name: KeyError."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{_table(found[2])}\n\n{found[3]}", page)


def _table(name: str) -> str:
    result, render = TABLES[name]
    return render() if kept(result) else f"Not measured yet: `make bench FOR={result}`."


def main() -> int:
    """Write the pages, or check them."""
    stale = [path for path in PAGES if rendered(path.read_text()) != path.read_text()]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(rendered(path.read_text()))
        return 0
    for path in stale:
        shown = Path(path).relative_to(ROOT)
        print(f"{shown}: run python tests/bench/performance_page.py", file=sys.stderr)  # noqa: T201
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
