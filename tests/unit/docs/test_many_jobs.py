"""docs/many-jobs.md: its routes and parameters exist, and its numbers are those of the code."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

from click.testing import CliRunner

from raftsched.api.jobs import forecast
from raftsched.api.routes import ROUTES
from raftsched.api.rows import SCAN_MAX
from raftsched.api.runs.stats import LOOK_MAX
from raftsched.bounds import BULK_IDS_MAX
from raftsched.cli.main import cli
from raftsched.core.limits import HISTORY_MAX
from raftsched.core.subjects.operations import KEPT_MAX, RUNNING_MAX, BulkAction
from raftsched.schedule.due_counts import SHARED_MAX
from raftsched.surface.jobs import FILTERS

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "many-jobs.md").read_text().split())


def test_its_routes_exist() -> None:
    routes = {(route.method, route.path) for route in ROUTES}
    named = re.findall(r"(GET|POST|DELETE) (/v1/[a-z_/{}:-]+)", PAGE)
    assert named
    assert set(named) <= routes


def test_every_parameter_and_action_is_there() -> None:
    for name in FILTERS:
        assert re.search(rf"`{name}[`=]", PAGE), name
    for action in BulkAction:
        assert re.search(rf"\b{action.name.lower()}\b", PAGE), action


def test_its_numbers_are_those_of_the_code() -> None:
    for words in (
        f"{SCAN_MAX:,} rows for each page",
        f"`ids` ({BULK_IDS_MAX:,} at most)",
        f"At most {RUNNING_MAX} operations",
        f"the newest {KEPT_MAX:,} are kept",
        f"The newest {LOOK_MAX:,} runs",
        f"before its newest {HISTORY_MAX} edits",
        f"An answer has {forecast.STEPS_MAX:,} steps at most",
        f"each of the {forecast.QUEUES_MAX} queues",
        f"more than {SHARED_MAX:,} times of such a job",
    ):
        assert words in PAGE, words


def test_its_commands_exist_with_their_options() -> None:
    text = (Path(__file__).parents[3] / "docs" / "many-jobs.md").read_text()
    lines = re.findall(r"^raftsched ([^#\n]+)", text, re.MULTILINE)
    assert lines
    for line in lines:
        words = line.split()
        command = takewhile(lambda word: not word.startswith("-"), words[:2])
        shown = CliRunner().invoke(cli, [*command, "--help"]).output
        for option in re.findall(r" (--?[a-zA-Z-]+)", line):
            assert option in shown, (line, option)
