"""`raftsched man`: the manual pages, of the same text as --help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from raftsched.cli.lazy import Command, Group, sections
from raftsched.version import __version__

_NAME = "raftsched"


@click.command(cls=Command)
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.pass_context
def man(ctx: click.Context, directory: Path | None) -> None:
    """Write the manual pages into DIR: raftsched.1, and one for each command of the first level, such as
    raftsched-jobs.1. Without DIR the names of the pages are printed.

    \b
      raftsched man ~/.local/share/man/man1
      man raftsched-jobs
    """
    if directory is None:
        for name, _ in pages(ctx.find_root().command):
            click.echo(name)
        return
    try:
        written = write_pages(ctx.find_root().command, directory)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise click.UsageError(f"the pages cannot be written into {directory}: {why}") from None
    click.echo(f"written: {len(written)} pages in {directory}")


def write_pages(root: click.Command, directory: Path) -> list[Path]:
    """Writes the pages of a command and of those below it. Returns their files."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages(root):
        written.append(directory / name)
        written[-1].write_text(text, encoding="utf-8")
    return written


def pages(root: click.Command) -> Iterator[tuple[str, str]]:
    """Yields the name and text of each page."""
    assert isinstance(root, Group)
    context = click.Context(root, info_name=_NAME, **root.context_settings)
    lines = {name: root.line(name).removesuffix(".") for name in root.list_commands(context)}
    yield f"{_NAME}.1", "\n".join(_first_page(root, context, lines)) + "\n"
    for name, line in lines.items():
        command = root.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, info_name=name)
        yield f"{_NAME}-{name}.1", "\n".join(_page(command, inner, line)) + "\n"


def _first_page(root: click.Command, context: click.Context, lines: dict[str, str]) -> Iterator[str]:
    yield from _head(_NAME, root.get_short_help_str(1_000).removesuffix("."))
    yield from _synopsis(root, context)
    yield ".SH DESCRIPTION"
    yield from _paragraphs(root)
    yield ".SH COMMANDS"
    for name, line in lines.items():
        yield from (".TP", f".BR {_NAME}\\-{_escaped(name)} (1)", _text(line))
    yield from _options(root, context)


def _page(command: click.Command, context: click.Context, line: str) -> Iterator[str]:
    yield from _head(context.command_path.replace(" ", "-"), line)
    yield from _synopsis(command, context)
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command)
    yield from _options(command, context)
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        yield from _below(command, context)
    yield from (".SH SEE ALSO", f".BR {_NAME} (1)")


def _below(group: click.Group, context: click.Context) -> Iterator[str]:
    """Yields what is below a group, each with its options; groups in it, too."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, info_name=name)
        yield f".SS {_escaped(_usage(command, inner))}"
        yield from _paragraphs(command)
        yield from _options(command, inner, ".PP")
        if isinstance(command, click.Group):
            yield from _below(command, inner)


def _head(name: str, sentence: str) -> Iterator[str]:
    yield f'.TH {_escaped(name.upper())} 1 "" "{_NAME} {__version__}" "{_NAME}"'
    yield from (".SH NAME", f"{_escaped(name)} \\- {_escaped(sentence)}")


def _synopsis(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (".SH SYNOPSIS", f".B {_escaped(_usage(command, context))}")


def _usage(command: click.Command, context: click.Context) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _paragraphs(command: click.Command) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        lines = paragraph.split("\n")
        if lines[0] == "\b":  # as it stands
            yield from (".PP", ".nf", *(_text(line) for line in lines[1:]), ".fi")
        else:
            yield from ([".PP"] if number else [])
            yield _text(" ".join(lines))


def _options(command: click.Command, context: click.Context, begin: str = ".SH") -> Iterator[str]:
    for title, options in sections(command.get_params(context)).items():
        records = [record for option in options if (record := option.get_help_record(context)) is not None]
        if records:
            yield f".SH {_escaped(title.upper())}" if begin == ".SH" else f".PP\n{_text(title)}:"
        for names, help_text in records:
            yield from (".TP", f".B {_escaped(names)}", *([_text(help_text)] if help_text else []))


def _escaped(text: str) -> str:
    """Returns a text in which nothing is a request of troff."""
    return (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    )


def _text(text: str) -> str:
    """Returns a line of text: it begins with no dot, and is not empty."""
    escaped = _escaped(text.rstrip())
    return re.sub(r"^(?=\.)", r"\\&", escaped) or "\\&"
