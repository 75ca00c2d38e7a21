"""The reference that is made from the code leaves nothing out."""

from __future__ import annotations

import re

import click
import pytest

from raftsched.api.jobs.fields import FIELDS
from raftsched.api.routes import ROUTES
from raftsched.cli.main import cli
from raftsched.config import node, worker
from scripts.website import markdown, reference
from scripts.website.reference import api, commands, sdk

PAGES = reference.pages()
HEADINGS = {path: [text for _, text in markdown.headings(text)] for path, text in PAGES.items()}


def within(folder: str) -> list[str]:
    return [heading for path, found in HEADINGS.items() if path.startswith(folder) for heading in found]


def test_each_command_is_there_with_its_options() -> None:
    contexts = commands.walk(cli, click.Context(cli, info_name="raftsched"))[1:]
    assert len(contexts) > 100
    found = within("reference/commands/")
    for context in contexts:
        assert found.count(context.command_path) == 1, context.command_path
        page = PAGES[f"reference/commands/{context.command_path.split()[1]}.md"]
        part = re.split(rf"^#+ {context.command_path}$", page, flags=re.MULTILINE)[1].partition("\n#")[0]
        for parameter in context.command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[-1] in part, (context.command_path, parameter.opts)


def test_what_help_does_not_wrap_is_a_block() -> None:
    assert commands.help_text("One\ntwo.\n\n\b\nTry it:\n  raftsched ui\n  raftsched dev  # x\n") == (
        "One two.\n\nTry it:\n\n```sh\nraftsched ui\nraftsched dev  # x\n```\n\n"
    )


def test_each_operation_and_each_type_is_there_once() -> None:
    found = within("reference/api/")
    for route in ROUTES:
        path, _, anchor = api.home(route).partition("#")
        name = f"{route.method} {re.sub(r':[^}]*}', '}', route.path)} {{ #{anchor} }}"
        assert found.count(name) == 1, name
        assert name in HEADINGS[f"reference/api/{path}"]
        part = PAGES[f"reference/api/{path}"].partition(f"## {name}\n")[2].partition("\n## ")[0]
        for parameter in (*route.operation.query, *route.operation.headers):
            assert f"| `{parameter}`" in part, (name, parameter)
    types = within("reference/api/") + HEADINGS["reference/job.md"]
    for name in api.DOCUMENT["components"]["schemas"]:
        assert types.count(f"{name} {{ #{name.lower()} }}") == 1, name


def test_each_field_of_a_job_is_there() -> None:
    for field in FIELDS:
        assert PAGES["reference/job.md"].count(f"\n| `{field.name}` | {field.about[:10]}") == 1, field.name


@pytest.mark.parametrize("page, known", [("node", node.SETTINGS), ("worker", worker.SETTINGS)])
def test_each_setting_is_there_with_its_flag(page: str, known: tuple[str, ...]) -> None:
    for name in known:
        rows = re.findall(rf"^\| `{name}` \| `(RAFTSCHED_\w+)` \| `(--[^`]+)` \| (.+) \|$",
                          PAGES[f"reference/settings-{page}.md"], re.MULTILINE)  # fmt: skip
        assert [variable for variable, _, _ in rows] == [f"RAFTSCHED_{name.upper()}"], name


def test_each_code_that_is_answered_is_there() -> None:
    operations = [one for methods in api.DOCUMENT["paths"].values() for one in methods.values()]
    answered = {code for one in operations for code in api.codes(one)}
    assert {*re.findall(r"^\| `([a-z-]+)` \| \d{3} \|", PAGES["reference/errors.md"], re.MULTILINE)} == answered


def test_each_method_of_the_client_is_there_with_its_parameters() -> None:
    page = PAGES["reference/python/jobs.md"]
    for name in ("create", "run", "backfill", "list"):
        assert f"## {name}\n\n```python\nclient.jobs.{name}(" in page
    assert "until: Moment | None = None" in page.partition("## pause\n")[2].partition("## ")[0]
    assert "## events\n" in PAGES["reference/python/client.md"]
    assert len(HEADINGS["reference/python/cluster.md"]) > 3


def test_a_long_signature_is_in_lines_with_its_marks() -> None:
    def method(
        self: object, a: int, /, b: str = "", *, c_that_is_quite_long: int = 1_000_000, d_that_is_long: str = ""
    ) -> None:
        raise NotImplementedError

    assert sdk.signature("x.method", method) == (
        "```python\nx.method(\n    a: int,\n    /,\n    b: str = '',\n    *,\n    c_that_is_quite_long: int = 1000000,"
        "\n    d_that_is_long: str = '',\n) -> None\n```\n\n"
    )
