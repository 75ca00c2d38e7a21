"""The command line: every command with its options, as `--help` has them."""

from __future__ import annotations

import inspect
import re

import click

from raftsched.cli.main import cli
from scripts.website.reference.text import code, plain, table

_FOLDER = "reference/commands"


def pages() -> dict[str, str]:
    """Returns a page for each command of the first level, and one that lists them."""
    root = click.Context(cli, info_name="raftsched")
    made = {}
    rows = []
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        made[f"{_FOLDER}/{name}.md"] = "".join(_command(command, click.Context(command, root, name), 1))
        rows.append((f"[`raftsched {name}`]({name}.md)", plain(command.get_short_help_str(120))))
    about = "# Every command\n\nOptions of `raftsched` itself stand before the name of a command.\n\n"
    made[f"{_FOLDER}/index.md"] = about + table(("command", ""), rows) + _options(cli, root)
    return made


def walk(command: click.Command, context: click.Context) -> list[click.Context]:
    """Returns the contexts of the command and of all below it."""
    found = [context]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += walk(below, click.Context(below, context, name))
    return found


def _command(command: click.Command, context: click.Context, level: int) -> list[str]:
    path = context.command_path
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    parts = [f"{'#' * level} {path}\n\n", help_text(command.help or ""), f"```text\n{usage}\n```\n\n"]
    parts.append(_options(command, context))
    for below in walk(command, context)[1:]:
        if below.parent is context:
            parts += _command(below.command, below, min(level + 1, 3))
    return parts


def help_text(text: str) -> str:
    """Returns the text of `--help` as Markdown: paragraphs, and those that are not wrapped as blocks."""
    parts = []
    for paragraph in inspect.cleandoc(text).partition("\f")[0].split("\n\n"):
        if not paragraph.startswith("\b"):
            parts.append(plain(paragraph) + "\n\n")
            continue
        lines = paragraph.split("\n")[1:]
        while lines and not lines[0].startswith("  "):
            parts.append(plain(lines.pop(0)) + "\n")
        block = inspect.cleandoc("\n".join(lines))
        parts.append(f"\n```sh\n{block}\n```\n\n" if block else "\n")
    return "".join(parts)


def _options(command: click.Command, context: click.Context) -> str:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            text = re.sub(r"\s{2,}\[", " [", record[1])
            rows.append((code(record[0].replace("|", "\\|")), plain(text)))
    return table(("option", ""), rows)
