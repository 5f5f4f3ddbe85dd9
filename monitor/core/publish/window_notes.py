"""Notes on the numbers of a window: lost data, data left out, faulty labels."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.core.publish.annotations import Fault
from monitor.core.publish.glossary import slice_name
from monitor.core.publish.snapshot import WITHHELD, ContractTable, LabelsAtFault, WindowTable
from monitor.core.publish.words import moment_text


def window_notes(table: ContractTable, window: WindowTable) -> Iterator[str]:
    """Yield sentences on what is special about a window's numbers, such as lost data."""
    if window.window != table.window:
        yield f"The window {table.window} decides the contract, not this one."
    if window.data_lost:
        yield "Events of this window were lost, or may be, before they could be read."
    if window.excluded:
        yield "Part of this window is left out: its data are bad or incomplete."
    yield from map(_at_fault, table.labels_at_fault)


def _at_fault(labels: LabelsAtFault) -> str:
    """Return the sentence about a slice whose labels are missing, too few or too many."""
    hidden = labels.slice == WITHHELD
    slice_ = f"A hidden slice of {labels.group_by}" if hidden else slice_name(labels.slice)
    share = "" if labels.share is None else f" (about {100 * labels.share:.0f} %)"
    where = f"{slice_}, route {labels.route.name.lower()}"
    since = moment_text(labels.since)
    if labels.fault is Fault.MISSING:
        meanwhile = "Meanwhile it is not tested, and others are compared without it."
        return f"{where}: requested labels have been missing since {since}{share}. {meanwhile}"
    frequency = "too rarely" if labels.fault is Fault.TOO_FEW else "too often"
    return f"{where}: labels have been requested {frequency} since {since}{share}."
