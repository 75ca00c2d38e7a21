"""The helps: short at the first level, whole lines, the usual first, and each option once."""

from __future__ import annotations

import re
from typing import cast

import click
import pytest

from raftsched.cli.cluster.running import SECTIONS as SECTIONS_OF
from raftsched.cli.jobs.create import HELP, create
from raftsched.cli.lazy import sections
from raftsched.cli.main import SECTIONS, cli
from raftsched.config.flags import NODE, WORKER, flags_of
from tests.unit.cli.house import run

LINES = 40
USUAL = 10


def test_the_first_help_fits_a_screen_and_begins_with_ten_usual_things() -> None:
    lines = run("--help").output.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 80
    usual = lines[lines.index("Ten usual things:") + 1 :][:USUAL]
    assert lines[lines.index(usual[-1]) + 1] == ""
    for line in usual:
        words = re.split(r"  +", line.strip())[0].split(" ")
        assert run(*words, "--help").exit_code == 0


def test_each_command_is_in_the_first_help_and_has_a_line_in_the_long_one() -> None:
    first, whole = run("--help").output, run("help").output
    for commands in SECTIONS.values():
        for name, (_, _, line) in commands.items():
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", first.partition("All commands")[2])
            assert f"raftsched {name} " in whole
            assert " ".join(line.split()) in " ".join(whole.split())


def test_help_of_a_command_is_its_help() -> None:
    for words in (["jobs"], ["jobs", "create"], ["instances", "list"]):
        assert run("help", *words).output == run(*words, "--help").output
    result = run("help", "logs", "more")
    assert (result.exit_code, "logs has no commands below it" in result.stderr) == (2, True)


def _groups(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return []
    found = [path] if path else []
    for name in command.list_commands(click.Context(command)):
        below = command.get_command(click.Context(command), name)
        assert below is not None
        found += _groups(below, (*path, name))
    return found


@pytest.mark.parametrize("path", _groups(cli), ids=" ".join)
def test_lines_of_commands_are_whole(path: tuple[str, ...]) -> None:
    commands = run(*path, "--help").output.partition("Commands:")[2].partition("Options:")[0]
    assert "..." not in commands.replace(", ...", "")


def test_jobs_begin_with_what_is_used_most() -> None:
    commands = run("jobs", "--help").output.partition("Commands:\n")[2]
    assert re.findall(r"^  ([a-z-]+)", commands, re.MULTILINE)[:4] == ["list", "get", "create", "run"]


def test_create_has_its_options_in_sections_the_ten_usual_first() -> None:
    shown = sections(create.params)
    assert list(shown) == [*HELP, "Common"]
    assert len(shown["Usual"]) == USUAL
    assert [str(option.name) for option in shown["Common"]] == ["server"]  # none is in no section
    assert [name for names in HELP.values() for name in names] == [
        str(option.name) for title in HELP for option in shown[title]
    ]


@pytest.mark.parametrize("command", [NODE, WORKER])
def test_each_flag_of_a_process_is_in_a_section(command: str) -> None:
    found = cast(click.Group, cli).get_command(click.Context(cli), command)
    assert found is not None
    titles = list(SECTIONS_OF[command].values())
    assert [title for title in sections(found.params) if title != "Common"] == titles
    assert SECTIONS_OF[command].keys() <= {flag.name for flag in flags_of(command)}


def test_runs_has_a_second_name_that_is_said_and_not_listed() -> None:
    assert "instances" not in run("help").output.replace("second name", "")
    assert "'raftsched instances' is the same as" in " ".join(run("runs", "--help").output.split())
    listed, second = run("runs", "list", "--help").output, run("instances", "list", "--help").output
    assert listed.replace(" runs list [", " [") == second.replace(" instances list [", " [")
    assert cast(click.Group, cli).get_command(click.Context(cli), "instances") is not None
