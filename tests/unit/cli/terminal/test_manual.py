"""The manual pages: of the same text as --help, and clean for groff."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from raftsched.cli.main import cli
from raftsched.cli.terminal.manual import pages
from tests.unit.cli.house import run

PAGES = dict(pages(cli))


def read(name: str) -> str:
    """Returns a page as groff prints it for a wide terminal, in single spaces."""
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=400n"], input=PAGES[name], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return re.sub(r"[ \n]+", " ", done.stdout.replace("\u2010", "-").replace("\u2212", "-"))


def test_there_is_a_page_for_each_command_of_the_first_level() -> None:
    names = cli.list_commands(click.Context(cli))
    assert list(PAGES) == ["raftsched.1", *(f"raftsched-{name}.1" for name in names)]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_groff_warns_of_nothing(name: str) -> None:
    assert "NAME" in read(name)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_a_page_has_what_the_helps_have() -> None:
    text = read("raftsched-jobs.1")
    assert "raftsched jobs create [OPTIONS] [NAME] [-- COMMAND...]" in text
    assert "--every [ID=]DURATION" in text
    assert "raftsched jobs create tick --every 10s --shell 'date; hostname'" in text  # as it is pasted
    assert "raftsched-logs(1)" in read("raftsched.1").replace("raftsched-logs (1)", "raftsched-logs(1)")
    assert "raftsched cluster members add [OPTIONS] NODE" in read("raftsched-cluster.1")  # two levels down


def test_they_are_written_and_named(tmp_path: Path) -> None:
    place = tmp_path / "man1"
    result = run("man", str(place))
    assert result.output == f"written: {len(PAGES)} pages in {place}\n"
    assert {path.name: path.read_text() for path in place.iterdir()} == PAGES
    assert run("man").output.split() == list(PAGES)


def test_a_directory_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("man", str(tmp_path / "file" / "man1"))
    assert result.exit_code == 2
    assert "the pages cannot be written into" in result.stderr
    assert "not a directory" in result.stderr
