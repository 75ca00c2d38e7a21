"""What the commands of named things share (queues, nodes, ...): their paths, lists, one of them, what is said after a
change. Each command keeps its own docstring, columns and words.

    _QUEUES = Resource("/v1/queues", names.QUEUE)

    @queues.command("list")
    @listing()
    def list_(client, fmt, **given):
        print_rows(fmt, rows(client, _QUEUES.path, given), _COLUMNS, named, "no queues")

    @queues.command()
    @click.argument("queue")
    @viewing
    def get(client, queue, fmt):
        print_one(fmt, client.get(_QUEUES.path_of(queue)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched.cli.remote import each, format_option, remote
from raftsched.cli.terminal.output import print_fields, print_json
from raftsched.cli.terminal.watching import watchable
from raftsched.names import NameRule

if TYPE_CHECKING:
    from raftsched.client.http import Client

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Resource:
    path: str  # of the list
    rule: NameRule

    def path_of(self, name: str) -> str:
        """Raises a usage error for what cannot be a name; it would be part of a path."""
        rule = self.rule
        if not rule.allows(name):
            raise click.UsageError(f"{name!r} is not {rule.kind}; it has {rule.rule}, like {rule.example}")
        return f"{self.path}/{name}"


def listing(limit: int = 100) -> Callable[[_F], _F]:
    """For a command that lists: --limit and --all (for `rows`), -o as `fmt`, --watch, and a Client first."""

    def decorate(function: _F) -> _F:
        for option in reversed(
            (
                click.option(
                    "--limit", type=click.IntRange(1), default=limit, show_default=True, help="At most so many."
                ),
                click.option("--all", "everything", is_flag=True, help="No limit."),
                format_option,
            )
        ):
            function = option(function)
        return remote(watchable(function))

    return decorate


def viewing(function: _F) -> _F:
    """For a command that shows: -o as `fmt`, --watch, and a Client first."""
    return remote(watchable(format_option(function)))


def viewing_by(news: Callable[..., Mapping[str, Any]]) -> Callable[[_F], _F]:
    """The same; --watch looks again also at the events of this query, see `watchable`."""
    return lambda function: remote(watchable(format_option(function), news))


def rows(
    client: Client, path: str, given: Mapping[str, Any], query: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """The items of a list, as many as `listing` was told."""
    return client.items(path, query or {}, None if given["everything"] else given["limit"])


def named(found: Mapping[str, Any]) -> str:
    return str(found["name"])


def identified(found: Mapping[str, Any]) -> str:
    return str(found["id"])


def print_one(
    fmt: str,
    found: Mapping[str, Any],
    name: Callable[[Mapping[str, Any]], str] = named,
    fields: Mapping[str, Any] | None = None,
) -> None:
    """One thing. `fields`: what people see of it; all of it when it is left out."""
    if fmt == "json":
        print_json(found)
    elif fmt == "name":
        click.echo(name(found))
    else:
        print_fields(found if fields is None else fields)


def said_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that say nothing."""
    return {name: value for name, value in found.items() if value not in (None, [], {}, "")}


def tell(fmt: str, found: Mapping[str, Any], line: str, name: Callable[[Mapping[str, Any]], str] = named) -> None:
    """After a change: one line for people, what it is now for programs."""
    if fmt == "json":
        print_json(found)
    else:
        click.echo(name(found) if fmt == "name" else line)


def delete_each(client: Client, resource: Resource, names: Sequence[str], said: str = "deleted") -> None:
    def act(name: str) -> None:
        client.request("DELETE", resource.path_of(name))
        click.echo(f"{said}: {name}")

    each(names, act)
