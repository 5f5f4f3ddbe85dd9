"""Content of the last table, as one JSON document for scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from monitor.core.time import DAY, SECOND, to_datetime
from monitor.demo.traffic import Produced
from monitor.demo.view import REGRESSED_SLICE, SYNTHETIC, Consumed, SliceView, View, contract_window


def document(view: View, produced: Produced, seed: int) -> dict[str, Any]:
    """The document; numbers of slices are those of the Snapshot, with the generator's truth."""
    watch = view.watch
    return {
        "note": SYNTHETIC,
        "seed": seed,
        "seconds": round(view.seconds, 1),
        "one_simulated_day_seconds": DAY / SECOND / view.speed,
        "simulated_time": _moment(view.simulated),
        "regression": {"slice": REGRESSED_SLICE, "began": _moment(view.regression_at)},
        "seconds_until_suspected": None if watch.regressed is None else round(watch.regressed, 1),
        "suspected": {text: round(at, 1) for text, at in sorted(watch.first.items())},
        "suspected_wrongly": watch.others,
        "seconds_until_paged": None if view.paged is None else round(view.paged, 1),
        "incidents": [msgspec.to_builtins(one) for one in view.incidents],
        "window": _window(view),
        "slices": [_slice(one) for one in view.slices],
        "produced": asdict(produced),
        "consumed": asdict(view.consumed),
        "conserved": _conserved(view.consumed),
        "complete": view.consumed.messages == produced.messages,
        "url": view.url,
    }


def _conserved(consumed: Consumed) -> bool:
    """Return True when both equations hold: each offset is a message or a gap, each event ended."""
    return consumed.message_balance == 0 and consumed.event_balance == 0


def _window(view: View) -> dict[str, Any] | None:
    window = contract_window(view.snapshot) if view.snapshot else None
    if window is None or window.labelled is None:
        return None
    return {
        "name": window.window,
        "labelled_from": _moment(window.labelled.start),
        "labelled_to": _moment(window.labelled.end),
    }


def _slice(view: SliceView) -> dict[str, Any]:
    return {
        "group_by": view.group_by,
        "slice": view.row.slice,
        "truth_tpr": None if view.truth is None else round(view.truth, 4),
        "published": msgspec.to_builtins(view.row),
    }


def _moment(micros: int) -> str:
    return to_datetime(micros).isoformat()
