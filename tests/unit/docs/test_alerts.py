"""deploy/prometheus: each alert says what to do, rings and is quiet in a test, and has a place in the documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from raftsched.cli.main import main

ROOT = Path(__file__).parents[3]
HERE = ROOT / "deploy" / "prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for file in ("recording.yml", "alerts.yml")
    for group in yaml.safe_load((HERE / file).read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
TESTS: list[dict[str, Any]] = yaml.safe_load((HERE / "alerts.test.yml").read_text())["tests"]

each = pytest.mark.parametrize("name", ALERTS)


def source_of(address: str) -> str:
    """Returns the file of a page and its heading, of the address at which nodes serve it."""
    return re.sub(r"^/ui/docs/(.+)/#", r"docs/\1.md#", address)


def sections(page: Path) -> dict[str, str]:
    """The text below each heading of a page, by the heading's anchor."""
    found: dict[str, str] = {}
    anchor = ""
    for line in page.read_text().splitlines():
        heading = re.match(r"#{1,6} (.*)", line)
        if heading:
            anchor = re.sub(r"[^\w -]", "", heading[1].lower()).replace(" ", "-")
            found[anchor] = ""
        else:
            found[anchor] = f"{found.get(anchor, '')}\n{line}"
    return found


@each
def test_an_alert_says_how_bad_it_is_what_it_is_and_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert re.fullmatch(r"Raftsched([A-Z][a-z]+)+(API)?", name)
    assert rule["labels"] == {"severity": rule["labels"]["severity"]}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    for text in (notes["summary"], notes["description"]):
        assert re.search(r"[.)]$", text), text
    assert re.search(r"\{\{ \$labels\.\w+ \}\}", notes["summary"]), "about whom"


@each
def test_its_runbook_is_there_and_is_about_it(name: str) -> None:
    page, _, anchor = source_of(ALERTS[name]["annotations"]["runbook_url"]).partition("#")
    assert f"`{name}`" in sections(ROOT / page)[anchor]


@each
def test_it_rings_in_a_test(name: str) -> None:
    rung = [
        sample["labels"]
        for test in TESTS
        for one in test["promql_expr_test"]
        if f'alertname="{name}"' in one["expr"]
        for sample in one["exp_samples"]
    ]
    assert rung, f"no test of alerts.test.yml makes {name} ring"
    detailed = [labels for labels in rung if "severity" in labels]
    assert all(f'severity="{ALERTS[name]["labels"]["severity"]}"' in labels for labels in detailed)
    assert detailed


@each
@pytest.mark.parametrize("case", ["first", "worst", "restart"])
def test_it_rings_in_each_case(name: str, case: str) -> None:
    tests = [test for test in TESTS if re.match(rf"{case} case of [A-Za-z, ]*\b{name}\b", test["name"])]
    assert tests, f"alerts.test.yml has no {case} case of {name}"
    for test in tests:
        rung = [one for one in test["promql_expr_test"] if f'alertname="{name}"' in one["expr"] and one["exp_samples"]]
        assert rung, f"{name} does not ring in: {test['name']}"


def test_each_case_says_which_it_is_and_of_which_alerts() -> None:
    for test in TESTS:
        found = re.fullmatch(r"(first|worst|restart|quiet) case of ([A-Za-z, ]+): .+", test["name"])
        assert found is not None, test["name"]
        assert set(found[2].split(", ")) <= ALERTS.keys() | {"all"}, test["name"]


def test_all_series_of_alerts_are_there_while_all_is_well() -> None:
    """Else an alert is quiet because it has nothing to look at."""
    (well,) = [test for test in TESTS if test["name"] == "quiet case of all: all is well"]
    made = {re.split(r"[{]", one["series"])[0] for one in well["input_series"]}
    asked = {name for rule in RULES for name in re.findall(r"\b(?:raftsched|process)_\w+|\bup\b", rule["expr"])}
    assert asked - made == {"raftsched_attempts_assigned_total"}, "which no alert looks at"
    for one in well["promql_expr_test"][:-1]:
        assert one["exp_samples"] == []
        assert "alertname" not in one["expr"], "about all of them"


def commands(text: str) -> list[str]:
    return [line for line in re.findall(r"`([^`]+)`", text) if line.startswith("raftsched ")]


@each
def test_the_commands_that_it_names_are_there(name: str) -> None:
    for line in commands(ALERTS[name]["annotations"]["description"]):
        words = [word for word in line.split()[1:] if re.fullmatch(r"[a-z-]+", word)]
        group: click.Command = main
        for word in words:
            if not isinstance(group, click.Group):
                break
            found = group.get_command(click.Context(group), word)
            assert found is not None, line
            group = found
        assert not isinstance(group, click.Group), line


def test_some_alert_names_a_command() -> None:
    assert any(commands(rule["annotations"]["description"]) for rule in ALERTS.values())
