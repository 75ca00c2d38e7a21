"""docs/doctor.md has each check and each alert, and each finding leads to a section that is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from raftsched.cli.main import main
from raftsched.doctor import CHECKS
from tests.unit.docs.test_alerts import ALERTS, sections, source_of
from tests.unit.doctor.test_cluster import TROUBLES, Seen

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "doctor.md").read_text()
ROWS = re.findall(r"^\| `([a-z-]+)` \| (.*?\?) \| (.+?) \| (.*?) ?\|$", PAGE, re.MULTILINE)


def test_each_check_is_in_the_table_with_its_question() -> None:
    assert [(name, asks) for name, asks, _, _ in ROWS] == [(name, check.asks) for name, check in CHECKS.items()]


def test_each_alert_has_a_check_that_sees_the_same() -> None:
    named = [alert for *_, alerts in ROWS for alert in re.findall(r"`(\w+)`", alerts)]
    assert sorted(named) == sorted(ALERTS)


@pytest.mark.parametrize("name", CHECKS)
def test_a_finding_leads_to_a_section_that_is_there(name: str) -> None:
    page, _, anchor = CHECKS[name].see.partition("#")
    assert (ROOT / page).is_file()
    assert not anchor or anchor in sections(ROOT / page)


def test_an_alert_and_its_check_lead_to_one_section_of_the_runbook() -> None:
    """But where other pages say more of what the check looks at."""
    for name, _, _, alerts in ROWS:
        urls = {source_of(ALERTS[alert]["annotations"]["runbook_url"]) for alert in re.findall(r"`(\w+)`", alerts)}
        see = CHECKS[name].see
        assert not urls or see in urls or not see.startswith("docs/runbook.md"), name


def test_each_section_about_alerts_has_a_check() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text()
    rung = text[text.index("## When an alert rings") : text.index("## Disks that are lost")]
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"### (.*)", rung)}
    assert anchors
    assert {f"docs/runbook.md#{anchor}" for anchor in anchors} <= {check.see for check in CHECKS.values()}


def test_the_commands_that_findings_name_are_there() -> None:
    found = set()
    for change, *_ in TROUBLES:
        cluster = Seen()
        change(cluster)
        for finding in cluster.found():
            found.update(re.findall(r"raftsched((?: [a-z]+)+)", finding.do))
    assert len(found) > 10
    for words in found:
        group: click.Command = main
        for word in words.split():
            if not isinstance(group, click.Group):
                break
            next_one = group.get_command(click.Context(group), word)
            assert next_one is not None, words
            group = next_one
        assert not isinstance(group, click.Group), words


def test_the_site_has_the_page() -> None:
    assert yaml.safe_load(re.search(r"^nav:.*", (ROOT / "mkdocs.yml").read_text(), re.M | re.S)[0])  # type: ignore[index]
    assert "      - doctor.md\n" in (ROOT / "mkdocs.yml").read_text()
