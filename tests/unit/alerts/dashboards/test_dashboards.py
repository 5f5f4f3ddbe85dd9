"""The dashboards with all rows: few panels, well formed, and about metrics that exist."""

from __future__ import annotations

import copy
import itertools
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import grafana_types
import pytest
import yaml
from declaring import DECLARING
from grafana import (
    FOLDER,
    documents,
    filled,
    label_values,
    panels,
    queries,
    rows,
    sources,
    variables,
)
from monitoring import run

from alerts.dashboards import dashboards, places
from alerts.dashboards.declarations import DeclarationError, read
from alerts.exposition.catalogue import CATALOGUE, MetricKind
from alerts.rules import rendered
from monitor.core.state import State
from monitor.settings import Settings

DOCUMENTS = documents()
KNOWN = {family.name: family for family in CATALOGUE}
KNOWN |= {f"{f.name}_bucket": f for f in CATALOGUE if f.kind is MetricKind.HISTOGRAM}
OUTSIDE = {"up", "ALERTS"}
"""Series of Prometheus itself."""
TARGET = {"job", "instance"}
COLUMNS = 24
PANEL = """
  - key: {key}
    id: {id}
    title: of {key}
    kind: stat
    about: What it shows, in words.
    size: [8, 4]
    words: flag
    looks: {{a: limit}}
    queries: [{{query: "up{{<< job >>}}"}}]
"""
each = pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)


def promql(document: dict[str, Any]) -> dict[str, str]:
    """All PromQL: of panels, annotations and variables."""
    chosen = {name: label_values(query)[0] for name, query in variables(document).items()}
    return {query.where: query.text for query in queries(document)} | chosen


# Files


def test_the_repository_has_those_of_a_plain_installation() -> None:
    files = {str(p.relative_to(FOLDER.parent)): p for p in FOLDER.rglob("*") if p.is_file()}
    shipped = {name: path.read_text() for name, path in files.items()}
    again = rendered(Settings())
    assert shipped == {name: text for name, text in again.items() if name.startswith("grafana/")}


def test_there_are_at_most_forty_panels() -> None:
    counts = {uid: len(list(panels(document))) for uid, document in DOCUMENTS.items()}
    assert set(counts) == {f"slicewatch-{n}" for n in ("fleet", "slice", "operations", "health")}
    assert sum(counts.values()) <= 40
    for document in DOCUMENTS.values():
        first = next(row for row in document["panels"] if row["type"] == "row")
        tops = [p for p in panels(document) if p["gridPos"]["y"] == first["gridPos"]["y"] + 1]
        assert {panel["type"] for panel in tops} == {"stat"}, document["uid"]


def test_the_manual_lists_every_dashboard() -> None:
    manual = (FOLDER.parent / "docs" / "deployment.md").read_text()
    for board in dashboards(DECLARING):
        assert f"| {board.name} | {board.about} |" in manual


def test_special_rows_are_only_where_they_are_declared() -> None:
    plain = {row["title"] for one in documents(Settings()).values() for row in rows(one)}
    full = {row["title"] for one in DOCUMENTS.values() for row in rows(one)}
    assert full - plain == {"Probes", "Evaluations", "Judge"}
    assert plain <= full


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("title: t", "titel: t", "slice.yaml: Object contains unknown field `titel`"),
        (
            "kind: stat",
            "kind: stats",
            r"Invalid enum value 'stats' - at `\$\.rows\[0\]\.panels\[0\]",
        ),
        ("size: [8, 4]", "size: [25, 4]", "Expected `int` <= 24"),
        ("about: What it shows, in words.", "about: What?", "length >= 20"),
        ("<< job >>", "<< jbo >>", "slice.yaml: << jbo >> is in no texts; add it there"),
        ("looks: {a: limit}", "looks: {a: limits}", "panel up has the look 'limits'; add it to"),
        ("words: flag", "words: flags", "panel up has the words 'flags'; add them to"),
        ("kind: stat", "kind: table", "panel up is a table; a table has columns"),
        ("kind: stat", "kind: stat\n    sort: b", "panel up is sorted by 'b'; name the title of a"),
        ("rows:", "rows: [", "slice.yaml is no YAML of a dashboard"),
        ("key: down", "key: up", "slice.yaml: two panels have the key 'up'; change one"),
        ("id: 2", "id: 1", "slice.yaml: two panels have the id 1; change one"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_fix(old: str, new: str, says: str) -> None:
    text = "title: t\nabout: a\nvariables: []\nrows:\n- title: r\n  panels:\n"
    text += PANEL.format(key="up", id=1) + PANEL.format(key="down", id=2)
    read("slice", text, {})
    with pytest.raises(DeclarationError, match=says):
        read("slice", text.replace(old, new, 1), {})


@each
def test_grafanas_own_types_know_all_of_it(document: dict[str, Any]) -> None:
    assert grafana_types.faults(document) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("editabel",), True),
        (("refresh",), 60),
        (("panels", 1, "options", "colorMode"), "loud"),
        (("panels", 1, "fieldConfig", "defaults", "units"), "s"),
        (("panels", 4, "transformations", 0, "ids"), "merge"),
        (("panels", 1, "targets", 0, "expresion"), "up"),
        (("templating", "list", 0, "type"), "choice"),
        (("annotations", "list", 0, "enable"), "yes"),
    ],
    ids=lambda value: "",
)
def test_grafanas_own_types_notice_a_mistake(path: tuple[str | int, ...], value: object) -> None:
    """That the check above can fail, in every part of a dashboard."""
    broken = copy.deepcopy(DOCUMENTS["slicewatch-fleet"])
    place: Any = broken
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert len(grafana_types.faults(broken)) == 1


@each
def test_nobody_edits_what_is_rendered(document: dict[str, Any]) -> None:
    assert document["editable"] is False
    assert document["tags"] == ["slicewatch"]
    assert "id" not in document, "of one Grafana alone"
    assert 8 <= len(document["uid"]) <= 40


def test_each_leads_to_the_others_and_to_the_status_page() -> None:
    for uid, document in DOCUMENTS.items():
        link, status = document["links"]
        assert status["type"] == "link"
        address, _, query = status["url"].partition("?")
        if uid != "slicewatch-slice":
            assert (address, query) == ("http://localhost:9095/", "")
        else:
            assert address == "http://localhost:9095/slice"
            names = {name for name, _ in parse_qsl(query)}
            assert names == {"contract", "window", "group_by", "slice", "metric"}
            assert names <= {one["name"] for one in document["templating"]["list"]}
        assert (link["type"], link["tags"]) == ("dashboards", ["slicewatch"])
        assert link["includeVars"]
        assert link["keepTime"]


# Panels


@each
def test_ids_and_titles_are_unique(document: dict[str, Any]) -> None:
    every = [*rows(document), *panels(document)]
    assert len({one["id"] for one in every}) == len(every)
    assert len({one["title"] for one in every}) == len(every)


def test_names_of_panels_are_unique() -> None:
    declared = [panel for one in dashboards(DECLARING) for panel in one.panels]
    assert len(places(Settings())) == sum(1 + len(panel.also) for panel in declared)
    assert len(declared) == sum(len(list(panels(one))) for one in DOCUMENTS.values())


@each
def test_no_panel_lies_on_another(document: dict[str, Any]) -> None:
    cells = [
        (x, y)
        for place in (one["gridPos"] for one in document["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < COLUMNS


@each
def test_every_panel_says_what_it_shows(document: dict[str, Any]) -> None:
    for panel in panels(document):
        assert panel["title"].strip(), panel["id"]
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0


@each
def test_what_is_withheld_leaves_a_hole(document: dict[str, Any]) -> None:
    for panel in panels(document):
        assert panel["fieldConfig"]["defaults"]["custom"].get("spanNulls", False) is False
    for where, text in promql(document).items():
        assert not re.search(r"\bvector\(|\babsent|\bdefault\b", text), where


@each
def test_no_colour_comes_from_a_number_but_from_a_limit(document: dict[str, Any]) -> None:
    """Grafana's own default would paint what is above 80 red."""
    complete = float(Settings().evaluate.completeness)
    for panel in panels(document):
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [step["value"] for step in steps] in ([None], [None, complete]), panel["title"]


@each
def test_all_columns_of_a_table_come_from_its_queries(document: dict[str, Any]) -> None:
    for panel in panels(document):
        if panel["type"] != "table":
            continue
        (include,) = [t for t in panel["transformations"] if t["id"] == "filterFieldsByName"]
        names = include["options"]["include"]["names"]
        several = len(panel["targets"]) > 1
        numbers = {f"Value #{t['refId']}" if several else "Value" for t in panel["targets"]}
        labels = {
            label.strip()
            for target in panel["targets"]
            for by in re.findall(r"by \(([^)]*)\)", target["expr"])
            for label in by.split(",")
        }
        assert set(names) <= numbers | labels, panel["title"]
        titles = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        (organized,) = [t for t in panel["transformations"] if t["id"] == "organize"]
        assert titles == set(organized["options"]["renameByName"].values())


# Queries


@each
def test_every_metric_and_label_is_in_the_catalogue(document: dict[str, Any]) -> None:
    for where, text in promql(document).items():
        selected = re.findall(r"([a-zA-Z_][a-zA-Z0-9_]*)\{([^}]*)\}", text)
        assert selected or text == "slicewatch_build_info", where
        for name, matchers in selected:
            assert name in KNOWN or name in OUTSIDE, where
            used = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers))
            if name in KNOWN:
                assert used <= {*KNOWN[name].labels, "job"}, where
            assert "job" in used, f"{where}: another installation would be in it"
        assert set(re.findall(r"\bslicewatch_\w+", text)) <= set(KNOWN), where


@each
def test_lines_are_named_by_labels_that_their_query_keeps(document: dict[str, Any]) -> None:
    for panel in panels(document):
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", str(target)))))
            assert named <= kept, panel["title"]


@each
def test_counters_are_asked_for_their_growth(document: dict[str, Any]) -> None:
    counters = {family.name for family in CATALOGUE if family.kind is MetricKind.COUNTER}
    for where, text in promql(document).items():
        for name in set(re.findall(r"slicewatch_\w+", text)) & counters:
            assert re.search(rf"(rate|increase)\({name}\{{[^}}]*\}}\[", text), where
        for interval in re.findall(r"\brate\([^[]*\[([^]]+)\]", text):
            assert interval == "$__rate_interval", where


@each
def test_every_variable_is_there(document: dict[str, Any]) -> None:
    known = set(variables(document)) | set(sources(document))
    built_in = {"__rate_interval", "__url_time_range", "__data"}
    text = json.dumps(document["panels"]) + json.dumps(document["annotations"])
    used = set(re.findall(r"\$\{?(\w+)", text)) - built_in
    assert used <= known
    assert known <= used | {"job"}
    seen: set[str] = set()
    for name, query in variables(document).items():
        assert set(re.findall(r"\$(\w+)", query)) <= seen, "it is chosen later"
        seen.add(name)


def test_every_place_of_a_link_is_a_variable_of_that_dashboard() -> None:
    given = set(variables(DOCUMENTS["slicewatch-slice"]))
    links = re.findall(r"/d/slicewatch-slice/\?[^\"\\]*(?:\\.[^\"\\]*)*", str(DOCUMENTS))
    assert links
    for link in links:
        assert set(re.findall(r"var-(\w+)=", link)) <= given


@each
def test_data_sources_are_chosen_by_the_reader(document: dict[str, Any]) -> None:
    known = {f"${{{name}}}": kind for name, kind in sources(document).items()}
    for panel in panels(document):
        for one in (panel, *panel["targets"]):
            assert known[one["datasource"]["uid"]] == one["datasource"]["type"]


def test_panels_of_labelled_windows_say_until_when() -> None:
    """Prometheus draws a value when it was published: the panel says so, and another says when."""
    for document in (DOCUMENTS["slicewatch-slice"], DOCUMENTS["slicewatch-fleet"]):
        drawn = [
            one
            for one in panels(document)
            if one["type"] == "timeseries" and "slicewatch_slice_gap" in str(one["targets"])
        ]
        assert drawn
        for one in drawn:
            assert one["title"].endswith("as published")
            assert "at the end of its window" in one["description"]
        (until,) = [p for p in panels(document) if "goes until" in p["title"]]
        assert "slicewatch_window_end_timestamp_seconds" in until["targets"][0]["expr"]


def test_every_state_has_a_word_and_a_colour() -> None:
    (panel,) = [
        p for p in panels(DOCUMENTS["slicewatch-fleet"]) if p["title"].startswith("State of every")
    ]
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    codes = dict(
        re.findall(r'group_by="", state="(\w+)"\}\) == 1\) \* (\d+)', panel["targets"][0]["expr"])
    )
    assert set(codes) == {*State}
    for state, code in codes.items():
        assert mapping["options"][code]["text"] == state.replace("_", " ")
        by_name = mapping["options"][state]
        assert by_name["color"] == mapping["options"][code]["color"]
        assert by_name["text"] == state.replace("_", " ")
    green = {one["text"] for one in mapping["options"].values() if one["color"] == "green"}
    assert green == {"within contract"}


def test_prometheus_can_parse_every_query(tmp_path: Path) -> None:
    values = itertools.chain.from_iterable(variables(one) for one in DOCUMENTS.values())
    chosen = dict.fromkeys(values, "any")
    texts = [text for one in DOCUMENTS.values() for text in promql(one).values()]
    records = [
        {"record": f"query:{number}", "expr": filled(text, chosen)}
        for number, text in enumerate(texts)
    ]
    (tmp_path / "rules.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]})
    )
    done = run("promtool", "check", "rules", str(tmp_path / "rules.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(texts)} rules found" in done.stdout


# Provisioning


def test_the_provisioned_data_source_is_of_the_type_that_the_dashboards_choose() -> None:
    (path,) = (FOLDER / "provisioning" / "datasources").iterdir()
    (provisioned,) = yaml.safe_load(path.read_text())["datasources"]
    assert {kind for one in DOCUMENTS.values() for kind in sources(one).values()} == {
        provisioned["type"]
    }
    assert provisioned["url"].startswith("$"), "from Grafana's environment"
    assert not any("secure" in key for key in provisioned), "no secret is written"


def test_provisioned_dashboards_are_read_only() -> None:
    (path,) = (FOLDER / "provisioning" / "dashboards").iterdir()
    (provider,) = yaml.safe_load(path.read_text())["providers"]
    assert provider["allowUiUpdates"] is False
