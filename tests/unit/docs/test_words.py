"""One word for each thing: help texts, the page, descriptions of the API and docs/ use those of the table in
docs/glossary.md, and none of the words that it says are not used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from raftsched.api.openapi.description import describe
from raftsched.api.routes import ROUTES
from raftsched.cli.main import cli
from tests.support.named import prose

ROOT = Path(__file__).parents[3]
GLOSSARY = (ROOT / "docs/glossary.md").read_text()
TABLE = GLOSSARY.partition("## One word for each thing")[2].partition("\n## ")[0]
NOT_USED = {  # as the table says it -> how it is found; in the order of the table
    "instance": r"\binstances?\b",
    "task instance": r"\btask instance",
    "job execution": r"\bjob executions?\b",
    "re-run": r"\bre-run",
    "retrigger": r"\bre-?trigger",
    "run again as a name": r"\bRun again\b",
    "from here on": r"\bFrom here on\b",
    "re-queue": r"\bre-queue",
    "resubmit": r"\bre-?submit",
    "dead-letter queue": r"\bdead[- ]letter queue",
    "dead job": r"\bdead jobs?\b",
    "run by request": r"\bruns? by request\b",
    "run that somebody asked for": r"\bruns? that (?:somebody|was|were) asked for\b",
    "delayed run": r"\bdelayed runs?\b",
    "completed job": r"\bcompleted jobs?\b",
    "master": r"\bmasters?\b",
    "slave": r"\bslaves?\b",
    "web UI": r"\bweb UI\b",
    "GUI": r"\bGUI\b",
    "web console": r"\bweb console\b",
    "timezone in sentences": r"\btimezones?\b",
}
ALLOWED = {  # word, and how the name of a text begins -> why
    ("instance", "api "): "the word of the contract",
    ("instance", "help raftsched instances"): "the second name of the command",
    ("instance", "help raftsched runs"): "says once what the API calls it",
    ("instance", "docs/faq.md"): "says what the API calls it",
    ("instance", "docs/glossary.md"): "says what the API calls it",
    ("instance", "docs/runs.md"): "says what the API calls it",
    ("instance", "docs/concepts.md"): "says what the API calls it",
    ("instance", "docs/command-line.md"): "says what the API calls it",
    ("instance", "docs/api.md"): "the word of the contract",
    ("instance", "docs/sdk.md"): "the word of the contract",
    ("instance", "docs/metrics.md"): "made of the code's texts",
    ("instance", "docs/outputs.md"): "the name of a field of shipped lines",
    ("instance", "docs/moving.md"): "of a template of systemd",
}


def help_texts() -> Iterator[tuple[str, str]]:
    """Yields the texts of all commands and options, without examples and names of options."""
    waiting: list[tuple[str, click.Command]] = [("raftsched", cli)]
    while waiting:
        name, command = waiting.pop()
        text = re.sub(r"\x08\n(?:.+\n?)*", "", command.help or "")
        yield f"help {name}", text
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield f"help {name} {parameter.opts[0]}", parameter.help or ""
        if isinstance(command, click.Group):
            context = click.Context(command)
            children = ((child, command.get_command(context, child)) for child in command.list_commands(context))
            waiting += [(f"{name} {child}", found) for child, found in children if found is not None]


def page_texts() -> Iterator[tuple[str, str]]:
    """Yields what the page may show: texts of its modules that have a space or begin with a capital letter."""
    for path in sorted((ROOT / "raftsched/ui/static").rglob("*")):
        if path.suffix in (".js", ".html"):
            source = re.sub(r"^\s*(?://|/?\*).*$", "", path.read_text(), flags=re.MULTILINE)
            found = re.findall(r'"([^"\n]*)"|`([^`]*)`|>([^<>{}]*)<', source)
            texts = (re.sub(r"\$\{[^}]*\}", " ", one or two or three) for one, two, three in found)
            yield f"page {path.name}", "\n".join(text for text in texts if re.match(r"[A-Z]|[^/]*\w [a-z]", text))


def api_texts() -> Iterator[tuple[str, str]]:
    """Yields summaries and descriptions of the API."""

    def walk(where: str, part: Any) -> Iterator[tuple[str, str]]:
        if isinstance(part, dict):
            for key, value in part.items():
                if key in ("summary", "description") and isinstance(value, str):
                    yield f"api {where}", value
                else:
                    yield from walk(f"{where}/{key}", value)
        elif isinstance(part, list):
            for value in part:
                yield from walk(where, value)

    yield from walk("", json.loads(json.dumps(describe(ROUTES, "0"))))


def doc_texts() -> Iterator[tuple[str, str]]:
    """Yields the sentences of README and docs/, without code and addresses; of the glossary without the table."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text().replace(TABLE, "")
        yield str(path.relative_to(ROOT)), re.sub(r"``?[^`]*``?|\]\([^)]*\)", "", prose(text))


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Returns name and text of all that people read, code left out."""
    found = [*help_texts(), *page_texts(), *api_texts(), *doc_texts()]
    return tuple(
        (name, re.sub(r"\binstance\.[a-z_]+|--?[a-z][\w-]*|\{[^}\n]*\}|'[^'\n]*'|`[^`\n]*`", "", text))
        for name, text in found
    )


def allowed(word: str, name: str) -> bool:
    return any(word == one and name.startswith(start) for one, start in ALLOWED)


@pytest.mark.parametrize("word", NOT_USED)
def test_the_word_is_not_used(word: str) -> None:
    pattern = re.compile(NOT_USED[word])
    used = {
        name: text[max(0, match.start() - 40) : match.end() + 40]
        for name, text in texts()
        if (match := pattern.search(text)) and not allowed(word, name)
    }
    assert not used, "docs/glossary.md has the word for it"


def test_the_table_and_this_test_say_the_same() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ")][1:]
    said = [word.strip() for row in rows for word in row.split("|")[5].split(",") if word.strip()]
    assert said == [*NOT_USED]


def test_all_kinds_of_texts_are_read() -> None:
    names = [name for name, _ in texts()]
    for start, least in (("help ", 500), ("page ", 50), ("api ", 500), ("docs/", 50)):
        assert sum(name.startswith(start) for name in names) > least, start
    words = "\n".join(text for _, text in texts())
    for shown in ("Dead letters", "Start a whole cluster on this machine"):
        assert shown in words
