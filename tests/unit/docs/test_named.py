"""What pages name exists: commands and their options, operations of the API, variables, names of the package; and each
block of code can be read. That examples do what they say is tried by tests/e2e/test_examples.py, with real nodes."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from raftsched.config import node, worker
from scripts.website import pages
from tests.support import named

ROOT = Path(__file__).parents[3]
PAGES = {
    page.source: (ROOT / page.source).read_text()
    for page in pages.site({}).pages.values()
    if page.source.endswith(".md") and not page.file and page.source != "CHANGELOG.md"  # which may name what is gone
}
OTHERS = {"--enable-optimizations", "--build-arg", "--cap-add", "--cpus", "--cpu-shares"}  # of other programs, in words
every_page = pytest.mark.parametrize("source", sorted(PAGES))


def sources(*folders: str) -> str:
    """Returns the text of all that is run from these folders."""
    kinds = (".py", ".sh", ".go", ".js", ".service", "")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in kinds)
    return "\n".join(path.read_text(errors="replace") for path in found if path.is_file())


SCRIPTS = sources("scripts", "jepsen-like", "examples", "tests/sim", "tests/mutants")
VARIABLES = {
    *re.findall(r"\bRAFTSCHED_[A-Z0-9_]*[A-Z0-9]\b", SCRIPTS + sources("raftsched")),
    *(f"RAFTSCHED_{name.upper()}" for name in (*node.SETTINGS, *worker.SETTINGS)),
}


@every_page
def test_its_commands_exist_with_their_options(source: str) -> None:
    wrong = {command: found for command in named.commands(PAGES[source]) if (found := named.wrong_in_command(command))}
    assert not wrong


@every_page
def test_its_operations_exist(source: str) -> None:
    assert not [one for one in named.operations(PAGES[source]) if not named.is_operation(*one)]


@every_page
def test_its_options_and_variables_exist(source: str) -> None:
    text = PAGES[source]
    unknown = {option for option in named.options_said(text) - named.options_of_commands() if option not in SCRIPTS}
    assert not unknown - OTHERS
    assert not {*re.findall(r"\bRAFTSCHED_[A-Z0-9_]*[A-Z0-9]\b", text)} - VARIABLES


def _json(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        try:
            json.loads("{" + text + "}")  # fields of an object
        except ValueError:
            for line in text.splitlines():  # an object, or a field, for each line
                json.loads(line if line.lstrip().startswith("{") else "{" + line.rstrip(",") + "}")


def _toml(text: str) -> None:
    unknown = tomllib.loads(text).keys() - {*node.SETTINGS, *worker.SETTINGS}
    assert not unknown, f"there are no such settings: {unknown}"


def _ini(text: str) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string(text)
    for section in parser.sections():
        assert section in ("Unit", "Service", "Install", "Timer"), f"systemd has no [{section}]"
        assert all(re.fullmatch(r"[A-Z][A-Za-z]+", name) for name in parser[section])


def _python(text: str) -> None:
    assert (wrong := named.wrong_in_python(text)) is None, wrong


READ: dict[str, Callable[[str], object]] = {
    "json": _json,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": _toml,
    "ini": _ini,
    "xml": ElementTree.fromstring,
    "python": _python,
    "sh": lambda text: None,  # its commands, above
    "": lambda text: None,
    "dockerfile": lambda text: None,  # of an image of the reader's own
    "sql": lambda text: None,  # tests/unit/importers/test_quartz.py
}


@every_page
def test_its_blocks_can_be_read(source: str) -> None:
    for block in named.fences(PAGES[source]):
        assert block.language in READ, f"{source}: say in tests/unit/docs/test_named.py how {block.language} is read"
        try:
            READ[block.language](block.text)
        except Exception as error:
            raise AssertionError(f"{source}: {error}\n{block.text}") from error


def test_commands_in_containers_are_found() -> None:
    page = (
        "```sh\ndocker exec raftsched raftsched tokens list\n"
        "kubectl -n raftsched exec raftsched-0 -- raftsched jobs list > x\n"
        "docker run --rm raftsched:local keys new | tee key\nkubectl -n raftsched create secret generic x\n```\n"
    )
    assert list(named.commands(page)) == ["raftsched tokens list", "raftsched jobs list", "raftsched keys new"]


@pytest.mark.parametrize(
    "command, wrong",
    [
        ("raftsched jobs list --label a=b --state SUSPENDED", None),
        ("raftsched --server http://n1:7401 jobs list", None),
        ("raftsched audit --actor root", None),  # a group that lists
        ("raftsched jobs create x --in 1s -- ./run --fast", None),  # the options of another program
        ("raftsched COMMAND --help", None),
        ("raftsched jobs make x", "there is no raftsched jobs make"),
        ("raftsched jobs list --colour", "raftsched jobs list has no option --colour"),
        ("raftsched --color jobs list", "raftsched has no option --color"),
    ],
)
def test_what_is_wrong_in_a_command(command: str, wrong: str | None) -> None:
    assert named.wrong_in_command(command) == wrong


def test_what_is_found_in_a_page() -> None:
    text = (
        "say `raftsched jobs\nlist -N x`, or `DELETE /v1/jobs`:\n\n"
        "```\nraftsched jobs wait $(raftsched jobs run a -o name)\n"
        "curl -s -X PUT http://127.0.0.1:7401/v1/queues/a \\\n  -d '{}' | raftsched jobs apply -f -\n```\n\n"
        "    raftsched ui\n"
    )
    assert [*named.commands(text)] == [
        "raftsched jobs wait X", "raftsched jobs run a -o name", "raftsched jobs apply -f -", "raftsched ui",
        "raftsched jobs list -N x",
    ]  # fmt: skip
    assert [*named.operations(text)] == [("DELETE", "/v1/jobs"), ("PUT", "/v1/queues/a")]
    assert named.is_operation("PUT", "/v1/queues/a")
    assert not named.is_operation("PUT", "/v1/queue/a")
    assert not named.is_operation("POST", "/v1/queues/a")
    assert named.options_said("`--a-b FILE`, `x --c`") == {"--a-b"}


def test_what_is_wrong_in_a_program() -> None:
    assert named.wrong_in_python("import raftsched\nraftsched.Client()\nfrom raftsched.testing import cluster") is None
    assert named.wrong_in_python("raftsched.Kliente()") == "raftsched has no Kliente"
    assert named.wrong_in_python("from raftsched import Nod") == "raftsched has no Nod"
