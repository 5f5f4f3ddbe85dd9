"""Ids of the decisions that have a label in files, for logs that do not say whose was requested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

import msgspec

from consumers.sources.file_source import STDIN, LineFile
from consumers.tolerance import decode_tolerantly
from monitor.errors import SourceError
from monitor.settings import Settings


class _Judged(msgspec.Struct):
    """Fields of a label that say whether its decision was sampled."""

    decision_id: str | int
    reason: str = ""


_decode = msgspec.json.Decoder(_Judged | list[_Judged]).decode


def labelled_ids(topics_and_paths: Sequence[tuple[str, str]], settings: Settings) -> frozenset[str]:
    """Return the ids of all decisions with a label in the files, complaints left out.

    Empty unless the mapping's constant of ``label_requested`` asks for them.

    Raises:
        SourceError: a file cannot be read twice, or not at all.
    """
    if not settings.mapping.decisions.requested_if_labelled:
        return frozenset()
    topic = settings.stream.labels_topic
    paths = [path for topic_of_file, path in topics_and_paths if topic_of_file == topic]
    if not paths or STDIN in paths:
        raise SourceError(
            'label_requested = "if_labelled" needs the labels beside the decisions: name'
            " their files, too, as labels=FILE; standard input cannot be read twice"
        )
    return frozenset(
        str(label.decision_id)
        for path in paths
        for label in _labels(path, settings)
        if label.reason != "complaint"
    )


def _labels(path: str, settings: Settings) -> Iterator[_Judged]:
    """Yield the labels of a file; those that nobody can read are reported when they are counted."""
    from monitor.composition.ingest import event_mappings

    mapping = event_mappings(settings, frozenset())[1]
    with closing(LineFile(path)) as file:
        for line in file:
            with suppress(ValueError, RecursionError):
                label = decode_tolerantly(_decode, mapping(line) if mapping else line)
                yield from label if isinstance(label, list) else [label]
