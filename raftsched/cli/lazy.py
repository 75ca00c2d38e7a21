"""Commands and groups of commands: options in sections, hints for words that are none, and what is imported only when
it is used, so that starting stays quick."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched.errors import RaftschedError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_F = TypeVar("_F", bound=Callable[..., Any])
# name: (module within raftsched.cli, attribute, one line for --help)
Later = Mapping[str, tuple[str, str, str]]
COMPLETE = "_RAFTSCHED_COMPLETE"  # the variable by which a shell asks for names
OUTPUT, COMMON = "Output", "Common"
_LAST = (OUTPUT, COMMON)  # of the sections of a help
# Options that many commands have, and their sections.
_OF_MANY = {
    **dict.fromkeys(("--output", "--limit", "--all", "--watch", "--interval", "--no-progress"), OUTPUT),
    **dict.fromkeys(("--server", "--help"), COMMON),
}
_WHOLE = 1_000  # characters: a line of a command is never cut


def in_section(title: str, *added: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Adds options to a command, in this order in this section of its help."""

    def decorate(function: _F) -> _F:
        before = len(getattr(function, "__click_params__", ()))
        for option in reversed(added):
            function = option(function)
        for parameter in getattr(function, "__click_params__", ())[before:]:
            parameter.section = title
        return function

    return decorate


class _Completing(click.Command):
    """A command whose names are completed as the cluster has them."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if extra.get("resilient_parsing") and COMPLETE in os.environ:
            from raftsched.cli.completing import give_types

            give_types(self.params)
        return super().make_context(info_name, args, parent, **extra)


class Command(_Completing):
    """A command whose options stand in sections in its help, and which says what is meant by a name that is none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            if isinstance(error.param, click.Argument):
                from raftsched.cli.words import no_argument

                raise no_argument(error.param, ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RaftschedError as error:
            if error.code != "not-found":
                raise
            from raftsched.cli.near import with_near

            raise with_near(error, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self.get_params(ctx), ctx, formatter)


def write_options(
    parameters: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter, first: str = "Options"
) -> None:
    """Writes the options in their sections; `first`: that of those that are in none."""
    for title, options in sections(parameters, first).items():
        records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def sections(parameters: Iterable[click.Parameter], first: str = "Options") -> dict[str, list[click.Option]]:
    """Returns the options that a help shows by section, in its order."""
    found: dict[str, list[click.Option]] = {}
    for parameter in parameters:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            usual = next((title for name, title in _OF_MANY.items() if name in parameter.opts), first)
            title = getattr(parameter, "section", usual)
            found.setdefault(title, []).append(parameter)
    return {title: found[title] for title in (*(t for t in found if t not in _LAST), *_LAST) if title in found}


class Group(_Completing, click.Group):
    """A group whose commands stand in the order of their use in its help."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        write_options(self.get_params(ctx), ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.line(name)) for name in self.list_commands(ctx)])

    def line(self, name: str) -> str:
        """Returns what a command does, in a sentence."""
        return self.commands[name].get_short_help_str(_WHOLE)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            from raftsched.cli.words import no_such_command

            raise no_such_command(error.command_name, self.list_commands(ctx), ctx) from None


class Listing(Group):
    """A group that lists when no sub-command is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # for completion: what is there to be said
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


class LazyGroup(Group):
    def __init__(
        self,
        *args: Any,
        later: Later,
        order: Sequence[str] = (),
        second_names: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """`order`: the names in the order of their use; the others come after them. `second_names`: other names of
        commands, which no help lists."""
        super().__init__(*args, **kwargs)
        self.later = later
        self.order = order
        self.second_names = second_names or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(dict.fromkeys([*self.order, *self.later, *self.commands]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self.second_names.get(cmd_name, cmd_name)
        if cmd_name not in self.later:
            return super().get_command(ctx, cmd_name)
        module, attribute, _ = self.later[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"raftsched.cli.{module}"), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes names and their lines, without importing each command; second names where no first one fits."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.line(name)) for name in names]
        if not found:
            second = [name for name in self.second_names if name.startswith(incomplete)]
            found = [CompletionItem(name, help=self.line(self.second_names[name])) for name in second]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def line(self, name: str) -> str:
        return self.later[name][2] if name in self.later else super().line(name)
