"""`raftsched help`: all commands with a line for each, or the help of one."""

from __future__ import annotations

import click

from raftsched.cli.lazy import Command


def _next(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Returns the commands below those that are there."""
    context, command = ctx.find_root(), ctx.find_root().command
    for word in ctx.params.get("words") or ():
        below = command.get_command(context, word) if isinstance(command, click.Group) else None
        if below is None:
            return []
        context, command = click.Context(below, info_name=word, parent=context), below
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    return [name for name in names if name.startswith(begun)]


@click.command("help", cls=Command)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=_next)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show all commands with a line for each, or the help of one, as its --help does.

    \b
      raftsched help
      raftsched help jobs create
    """
    root = ctx.find_root()
    if not words:
        from raftsched.cli.main import SECTIONS

        formatter = root.make_formatter()
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"raftsched {name}", line) for name, (_, _, line) in commands.items()])
        click.echo(formatter.getvalue().strip())
        return
    context, command = root, root.command
    for word in words:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"{context.command_path} has no commands below it")
        _, found, _ = command.resolve_command(context, [word])  # which raises, with a hint
        assert found is not None
        context, command = click.Context(found, info_name=word, parent=context), found
    click.echo(command.get_help(context))
