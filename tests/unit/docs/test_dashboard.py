"""deploy/grafana: the dashboard is what Grafana can show; tests/e2e/test_watch.py runs its queries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DASHBOARD = json.loads((Path(__file__).parents[3] / "deploy" / "grafana" / "raftsched.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def test_the_data_source_and_the_cluster_are_chosen_by_who_looks() -> None:
    source, job, node = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert (job["name"], job["query"]["query"]) == ("job", "label_values(raftsched_build_info, job)")
    assert job["datasource"] == SOURCE
    assert (node["name"], node["type"]) == ("node", "textbox")
    assert all(link["url"].startswith("${node}/ui/") for link in DASHBOARD["links"])
    for panel in GRAPHS:
        assert panel["datasource"] == SOURCE, panel["title"]
        for target in panel["targets"]:
            assert target["datasource"] == SOURCE, panel["title"]
            assert target["expr"].count('job="$job"') == target["expr"].count("raftsched_"), target["expr"]


def test_each_panel_says_what_it_shows() -> None:
    titles = [panel["title"] for panel in PANELS]
    assert len(set(titles)) == len(titles)
    for panel in GRAPHS:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == list("ABCDEF")[: len(letters)]
        assert letters, panel["title"]


def test_panels_have_ids_and_places_of_their_own() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


# ---------------------------------------------------------------- links into the page

STATIC = Path(__file__).parents[3] / "raftsched" / "ui" / "static"
ROUTES = dict(re.findall(r'path: "(/ui[^"]*)".*page: (\w+)', (STATIC / "core" / "routes.js").read_text()))
LABEL = re.compile(r"\$\{__field\.labels\.(\w+)\}")
OF_EACH = {"namespace"}  # parameters that all lists of the page read (components/list-page.js)


def links() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(panel, link) for panel in GRAPHS for link in panel["fieldConfig"]["defaults"].get("links", [])]


def source_of(page: str) -> str:
    (path,) = [one for one in (STATIC / "pages").glob("*.js") if f"class {page} " in one.read_text()]
    return path.read_text()


def test_links_of_panels_lead_to_pages_that_there_are() -> None:
    found = links()
    assert {LABEL.sub(":name", link["url"]).partition("?")[0] for _, link in found} >= {
        f"${{node}}/ui/{page}" for page in ("runs", "jobs", "dead-letters", "queues/:name", "webhooks/:name", "cluster")
    }
    for panel, link in found:
        assert link["targetBlank"], panel["title"]
        path, _, query = link["url"].removeprefix("${node}").partition("?")
        page = ROUTES[LABEL.sub(":name", path)]  # KeyError: there is no such page
        for name in re.findall(r"(?:^|&)(\w+)=", query):
            assert name in OF_EACH or f'"{name}"' in source_of(page), (panel["title"], name)


def test_links_name_labels_that_the_series_of_their_panel_have() -> None:
    for panel, link in links():
        for label in LABEL.findall(link["url"] + link["title"]):
            for target in panel["targets"]:
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), (panel["title"], label)
