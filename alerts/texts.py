"""Pieces of alert texts: Go templates, as Prometheus fills them in.

A template sees the labels of its alert's expression and nothing else (``$labels`` has neither
the alert's name nor the labels of its rule), so all numbers are looked up when it is filled in.
A look-up quotes every label with ``%q`` inside backquotes: a quote in a value cannot break it.
"""

from __future__ import annotations

from alerts import catalogue
from alerts.catalogue import Family, Interval

_KEYS = {
    "incident": ("job", "contract", "metric", "incident"),
    "metric": ("job", "contract", "metric"),
    "contract": ("job", "contract"),
    "set": ("job", "probe_set"),
    "way": ("job", "probe_set", "direction"),
}
"""What a look-up may be about, and the alert's labels that identify it."""

NOT_ABOUT_PEOPLE = "\nThis is a disparity in routing, not a statement about people."

METRIC = (
    '{{ if eq $labels.metric "blocked" }}blocked rate{{ else }}{{ $labels.metric | toUpper }}'
    "{{ end }}"
)


def filled(text: str) -> str:
    """A text with the matchers that its look-ups need, as Prometheus fills it in."""
    return "".join(_matchers(key) for key in _KEYS if f"${key} " in text) + text


def _matchers(key: str) -> str:
    matchers = ",".join(f"{name}=%q" for name in _KEYS[key])
    return f"{{{{ ${key} := printf `{matchers}` {_given(key)} }}}}"


def _given(key: str) -> str:
    return " ".join(f"$labels.{name}" for name in _KEYS[key])


def lookup(family: Family, key: str, found: str, *, by: str = "", more: str = "") -> str:
    """Text about a metric of what an alert is about; nothing where there is none.

    Args:
        family: the metric.
        key: of what: the labels that it must share with the alert.
        found: text for what is found, the vector being the dot.
        by: the label that is asked for: one sample each, however many replicas show it.
        more: further matchers.
    """
    selector = f"{family.name}{{%s{more}}}"
    asked = f"group by ({by}) ({selector})" if by else f"max({selector})"
    return f"{{{{ with printf `{asked}` ${key} | query }}}}{found}{{{{ end }}}}"


def _info(label: str, found: str) -> str:
    return lookup(catalogue.INCIDENT_INFO, "incident", found, by=label)


def said(label: str) -> str:
    """A label of what a look-up has found."""
    return f'. | first | label "{label}"'


def _percent(family: Family) -> str:
    return lookup(family, "incident", "{{ . | first | value | humanizePercentage }}")


def _instant(layout: str) -> str:
    return f'{{{{ (. | first | value | toTime).Format "{layout}" }}}}'


MINUTE = _instant("2006-01-02 15:04 UTC")
DAY = _instant("2006-01-02")

_NO_DETAILS = "no details shown at present"
SLICE = _info(
    "slice",
    f"{{{{ $slice := {said('slice')} }}}}"
    '{{ if eq $slice "withheld" }}details withheld'
    "{{ else if $slice }}slice {{ $slice }}"
    "{{ else }}all decisions{{ end }}"
    f"{{{{ else }}}}{_NO_DETAILS}",
)
"""The slice of an incident in words. Hidden is said; unknown, while nothing is shown, as well."""

SINCE = lookup(
    catalogue.INCIDENT_SINCE, "incident", f"\nBeyond the limit since the cohort of {MINUTE}."
)
SHARE = _info(
    "share",
    f"{{{{ with {said('share')} }}}}\nThis slice makes {{{{ . }}}} of the excess.{{{{ end }}}}",
)
SLICES = (
    # In the order of a hash without sorting: another text at each evaluation.
    '{{ range $i, $one := . | sortByLabel "slice" }}'
    '{{ if $i }},{{ end }} {{ $one | label "slice" }}{{ end }}'
)
"""All slices that a look-up by slice has found."""
INHERITED = lookup(
    catalogue.INHERITED, "incident", f"\nOnly worse because of it:{SLICES}.", by="slice"
)
STAGE = _info(
    "stage",
    f"{{{{ with {said('stage')} }}}}"
    '\n{{ if eq . "none" }}No stage of the router surely differs.'
    "{{ else }}It parts from its reference at the router's stage: {{ . }}.{{ end }}{{ end }}",
)
SAMPLING = _info(
    "sampling", f"{{{{ with {said('sampling')} }}}}\nLabels: {{{{ . }}}}.{{{{ end }}}}"
)


def _shown(when: str, interval: Interval) -> str:
    """A number with its interval, or the interval alone where the number is coded."""
    value = lookup(interval.value, "incident", " {{ . | first | value | humanizePercentage }},")
    lower, upper = _percent(interval.lower), _percent(interval.upper)
    within = f"\n{when}:{value} 95 % interval {lower} to {upper}."
    return lookup(interval.lower, "incident", within)


FIRST = _shown("First shown", catalogue.INCIDENT_FIRST)
LATEST = _shown("Latest shown", catalogue.INCIDENT_LATEST)
ALLOWED = "".join(
    lookup(
        family,
        "metric",
        f"\nThe contract allows {words} {{{{ . | first | value | humanizePercentage }}}}.",
    )
    for family, words in (
        (catalogue.MAX_GAP, "a gap of at most"),
        (catalogue.MIN_LEVEL, "a rate of at least"),
        (catalogue.MAX_LEVEL, "a rate of at most"),
    )
)
_NO_CHANGE = lookup(
    catalogue.INCIDENT_CHANGE,
    "incident",
    "{{ else }}\nNo versions or settings changed within two days before.",
    by="what",
)
CHANGES = "".join(
    lookup(
        catalogue.INCIDENT_CHANGE,
        "incident",
        f"\nWithin two days before, {what} changed: {MINUTE}.",
        more=f',what="{what}"',
    )
    for what in ("versions", "settings")
) + lookup(catalogue.INCIDENT_SINCE, "incident", _NO_CHANGE)
"""What changed; that nothing did is said only while the incident is shown."""
RESOLVABLE = lookup(
    catalogue.RESOLVABLE,
    "incident",
    f"\nRepaired now, it can be resolved on {DAY} at the earliest, at the present rate of labels.",
)
OWNER = lookup(
    catalogue.CONTRACT_INFO,
    "contract",
    f"\nOwner of the contract: {{{{ {said('owner')} }}}}.",
    by="owner",
)
SYNTHETIC = lookup(
    catalogue.CONTRACT_INFO,
    "contract",
    "\nSynthetic test conditions, nobody's requests.",
    by="synthetic",
    more=',synthetic="true"',
)


def permalink(external_url: str) -> str:
    """The stored Snapshot that first told of the incident; the service, until it has a number."""
    return external_url + _info(
        "snapshot",
        f"{{{{ $number := {said('snapshot')} }}}}"
        '{{ if ne $number "0" }}/snapshot/{{ $number }}{{ end }}',
    )


def dashboard(
    dashboard_url: str | None, key: str = "metric", family: Family = catalogue.GAP.value
) -> str:
    """The dashboard of what an alert is about, or Prometheus's own graph of a metric of it."""
    if dashboard_url is None:
        query = f"printf `{family.name}{{%s}}` ${key} | graphLink"
        return f"{{{{ $externalURL }}}}{{{{ {query} }}}}"
    chosen = (f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in _KEYS[key])
    return f"{dashboard_url}?{'&'.join(chosen)}"
