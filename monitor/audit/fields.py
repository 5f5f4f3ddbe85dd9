"""The fields of a row, and the words in which an error asks for each of them.

A row is flat: it carries everything, the set's part and the results' part alike. Whatever is
absent, null or (in CSV) empty has not been said.

Errors are on one line: file, line, field, what was found, and the fix. A value is never repeated: a
set may be reviewed data of real people. Names of fields are.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, Struct, ValidationError, convert, structs

from monitor.errors import AuditError
from monitor.settings.kinds import AttributeName, Name
from monitor.settings.problems import join

_PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"

Label = Annotated[
    str,
    Meta(
        # Ids and names are printed in tables, XML and HTML, on one line.
        pattern=rf"^(?!\s){_PRINTABLE}{{1,200}}(?<!\s)\Z",
        description="text of at most 200 characters, on one line, without spaces at its ends",
    ),
]
Axis = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z][A-Za-z0-9_-]{0,63})?\Z",
        description="the name of what is varied, such as dialect: a letter, then letters, digits, "
        "_ or -",
    ),
]
Version = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+/-]{0,63}\Z",
        description="a version in text: letters, digits, _ . : + / -, at most 64",
    ),
]
Truth = Annotated[bool, Meta(description="true or false")]
Fraction = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1, such as 0.70")]
RouteName = Annotated[
    Literal["auto_serve", "human_review", "blocked_by_evidence"],
    Meta(description="auto_serve, human_review or blocked_by_evidence, or leave it out"),
]
Varied = Annotated[
    list[Literal["expected_ready", "policy", "evidence"]],
    Meta(
        description="a list of what differs on purpose, out of expected_ready, policy, evidence, "
        'such as ["policy"] (CSV: the names with a space between them)'
    ),
]
Attributes = Annotated[
    dict[AttributeName, Label],
    Meta(
        min_length=1,
        description='attribute names with their values in text, such as {"channel": "chat"} '
        "(CSV: a column attributes.NAME for each)",
    ),
]
RequestDigest = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{64}\Z",
        description="the SHA-256 of the request, as slicewatch probe run writes it",
    ),
]


class VersionFields(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Versions of the parts that decided."""

    judge: Version
    rubric: Version
    policy: Version
    router: Version


VersionTuple = Annotated[
    VersionFields,
    Meta(
        description="the versions of judge, rubric, policy and router "
        "(CSV: a column versions.NAME for each)"
    ),
]


class SetFields(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The set's part of a row."""

    dataset: Name
    synthetic: Truth
    pair_id: Label
    variant: Label
    attributes: Attributes
    policy: Version
    dataset_version: Version = "1"
    varies: Varied = []
    axis: Axis = ""
    expected_ready: Truth | None = None
    evidence: Label | None = None
    reviewers_agree: Truth | None = None
    held_out: Truth = False
    request: Any = None
    request_sha256: RequestDigest = ""


class ResultFields(SetFields, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A row of results: the set's part, and what the router made of it."""

    threshold: Fraction
    evidence_passed: Truth
    versions: VersionTuple
    judge_score: Fraction | None = None
    route: RouteName | None = None


HINTS: dict[type[Struct], dict[str, Any]] = {
    fields: get_type_hints(fields, include_extras=True)
    for fields in (VersionFields, SetFields, ResultFields)
}
REQUIRED = {
    fields: frozenset(field.name for field in structs.fields(fields) if field.required)
    for fields in HINTS
}
SET_NAMES = frozenset(HINTS[SetFields])
RESULT_NAMES = frozenset(HINTS[ResultFields]) - SET_NAMES
ALL_NAMES = tuple(HINTS[ResultFields])


def words(hint: Any) -> str:
    """Words for what a field must be, described by its type or by a member of its union."""
    for part in (hint, *get_args(hint)):
        for meta in getattr(part, "__metadata__", ()):
            if meta.description:
                return str(meta.description)
    raise LookupError(hint)


def fits(value: object, hint: Any) -> bool:
    """Return True when a value is of a field's type."""
    try:
        convert(value, hint)
    except ValidationError:
        return False
    return True


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "an object"),
)


def problem(path: Path, text: str, *, line: int = 0, field: str = "") -> AuditError:
    """The error about a file, one of its lines, or one field of it."""
    place = [str(path) if str(path).isprintable() else repr(str(path))]
    place += [f"line {line}"] if line else []
    place += [f"field {field}"] if field else []
    return AuditError(f"{', '.join(place)}: {text}")


def found(value: object) -> str:
    """The kind of a value, never the value."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "nothing")


def field_name(*parts: str) -> str:
    """The full name of a field, on one line and cut short: ``versions.judge``."""
    name = ""
    for part in parts:
        name = join(name, part)
    return name


def unknown(path: Path, line: int, known: Iterable[str], *parts: str) -> AuditError:
    """The error for a field that does not exist, with the nearest one that does."""
    names = [".".join((*parts[:-1], name)) for name in known]
    near = get_close_matches(".".join(parts).lower()[:64], names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    text = f"unknown field; {hint}known here: {', '.join(names)}"
    return problem(path, text, line=line, field=field_name(*parts))
