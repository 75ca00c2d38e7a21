"""A group of commands that are imported when they are used, so that starting stays quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name: (module within raftsched.cli, attribute, one line for --help)
Later = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    def __init__(self, *args: Any, later: Later, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *self.later})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.later:
            return super().get_command(ctx, cmd_name)
        module, attribute, _ = self.later[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"raftsched.cli.{module}"), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes names and their lines, without importing each command."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self._line(name, 80)) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        room = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._line(name, room)) for name in names])

    def _line(self, name: str, room: int) -> str:
        if name in self.later:
            return self.later[name][2]
        return self.commands[name].get_short_help_str(room)
