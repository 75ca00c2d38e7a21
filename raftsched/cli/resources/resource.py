"""The parts that commands of named things share (queues, calendars, nodes, ...): paths, lists, changes, deletion. Each
group keeps its own help, columns and words.

    _QUEUES = Resource("/v1/queues", names.QUEUE)

    list_command(queues, _QUEUES, _COLUMNS, "no queues", "List the queues.")
    get_command(queues, _QUEUES, "QUEUE", "Show a queue.")
    delete_command(queues, _QUEUES, "QUEUE", "Delete queues.")

    @queues.command("set")
    ...
        found = put_or_patch(client, _QUEUES, queue, change)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched.cli.each import each
from raftsched.cli.failures import Failure
from raftsched.cli.remote import format_option, options, remote
from raftsched.cli.terminal.output import print_fields, print_json, print_rows
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.watching import watchable
from raftsched.errors import Exit
from raftsched.names import NameRule

if TYPE_CHECKING:
    from raftsched.client.http import Client

_F = TypeVar("_F", bound=Callable[..., Any])
_TRIES = 3


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
    """Declares a command that lists: --limit, --all and --cursor (for `rows`), -o as `fmt`, --watch, and a Client
    first."""

    added = options(
        click.option("--limit", type=click.IntRange(1), default=limit, show_default=True, help="At most so many."),
        click.option("--all", "everything", is_flag=True, help="No limit."),
        click.option("--cursor", metavar="CURSOR", help='Go on there: the "next" of a list with -o json.'),
        format_option,
    )
    return lambda function: remote(watchable(added(function)))


def viewing(function: _F) -> _F:
    """Declares a command that shows: -o as `fmt`, --watch, and a Client first."""
    return remote(watchable(format_option(function)))


def viewing_by(news: Callable[..., Mapping[str, Any]]) -> Callable[[_F], _F]:
    """Does what `viewing` does; --watch also looks again at the events of this query, see `watchable`."""
    return lambda function: remote(watchable(format_option(function), news))


class Listed:
    """The items of a list, as many as `listing` was told, and whether there are more. Goes through them once."""

    def __init__(self, client: Client, path: str, query: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self._client, self._path, self._query = client, path, query
        self._most: int | None = None if given.get("everything") else given["limit"]
        self._begin: str | None = given.get("cursor")
        self._shown = 0
        self.next: str | None = None  # the cursor to go on with; None: that was all

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for page, cursor in self._client.pages(self._path, self._query, self._most, self._begin):
            self.next = cursor
            self._shown += len(page)
            if self.next is not None and self._shown == self._most:
                self._look_behind()
            yield from page

    def _look_behind(self) -> None:
        """A node says where to go on before it knows whether what is there is asked for."""
        for page, cursor in self._client.pages(self._path, self._query, 1, self.next):
            if not page:
                self.next = cursor
            return

    def cut(self, fmt: str) -> str | None:
        """Returns what is to be said of a list that was cut; None: all was shown."""
        if self.next is None:
            return None
        more = "--all, or --limit N" if fmt == "table" else f"--all, --limit N, or --cursor {self.next}"
        return f"{self._shown:,} shown; more: {more}"


class Whole:
    """The same of a list that a node answers at once."""

    def __init__(self, items: Sequence[dict[str, Any]], given: Mapping[str, Any]) -> None:
        if given.get("cursor"):
            raise click.UsageError("--cursor: this list has no more than one part; say --all")
        self._items, self._most = items, len(items) if given.get("everything") else given["limit"]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items[: self._most])

    def cut(self, fmt: str) -> str | None:
        """Returns what is to be said of a list that was cut; None: all was shown."""
        shown = len(self._items[: self._most])
        return (
            f"{shown:,} of {len(self._items):,} shown; more: --all, or --limit N" if shown < len(self._items) else None
        )


def rows(client: Client, path: str, given: Mapping[str, Any], query: Mapping[str, Any] | None = None) -> Listed:
    """Returns the items of a list, as many as `listing` was told."""
    return Listed(client, path, query or {}, given)


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
    """Prints one thing. `fields`: the part that is shown to people; all of it when it is left out."""
    if fmt == "json":
        print_json(found)
    elif fmt == "name":
        click.echo(name(found))
    else:
        print_fields(found if fields is None else fields)


def said_fields(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that have a value."""
    return {name: value for name, value in found.items() if value not in (None, [], {}, "")}


def tell(fmt: str, found: Mapping[str, Any], line: str, name: Callable[[Mapping[str, Any]], str] = named) -> None:
    """Prints the result of a change: one line for people, the thing as it is now for programs."""
    if fmt == "json":
        print_json(found)
    else:
        click.echo(name(found) if fmt == "name" else line)


def list_command(group: click.Group, resource: Resource, columns: list[Column], empty: str, help: str) -> None:
    """Adds `list` to a group of commands. `empty` is printed when there is nothing."""

    def list_(client: Client, fmt: str, **given: Any) -> None:
        print_rows(fmt, rows(client, resource.path, given), columns, named, empty)

    group.command("list", help=help)(listing()(list_))


def get_command(
    group: click.Group,
    resource: Resource,
    metavar: str,
    help: str,
    shown: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda found: found,
    name: Callable[[Mapping[str, Any]], str] = named,
) -> None:
    """Adds `get` to a group of commands. `shown`: the fields for people."""

    def get(client: Client, one: str, fmt: str) -> None:
        found = client.get(resource.path_of(one))
        print_one(fmt, found, name, shown(found))

    group.command("get", help=help)(click.argument("one", metavar=metavar)(viewing(get)))


def delete_command(group: click.Group, resource: Resource, metavar: str, help: str, said: str = "deleted") -> None:
    """Adds `delete` to a group of commands; it takes several names."""

    def delete(client: Client, name: str) -> None:
        client.request("DELETE", resource.path_of(name))
        click.echo(f"{said}: {name}")

    each_command(group, "delete", metavar, help, delete)


def each_command(group: click.Group, command: str, metavar: str, help: str, act: Callable[[Client, str], None]) -> None:
    """Adds a command that takes several names, and acts on one after the other."""

    def act_on_all(client: Client, names: tuple[str, ...]) -> None:
        each(names, lambda name: act(client, name))

    argument = click.argument("names", metavar=f"{metavar}...", nargs=-1, required=True)
    group.command(command, help=help)(argument(remote(act_on_all)))


def put_or_patch(
    client: Client, resource: Resource, name: str, change: Mapping[str, Any], new: Mapping[str, Any] | None = None
) -> Any:
    """Merges a change into a thing, or creates it from the change and `new`; returns it as it is then. Tries again when
    somebody else creates or deletes it in between."""
    from raftsched.client.errors import ClientError

    path = resource.path_of(name)
    for _ in range(_TRIES):
        try:
            return client.request("PATCH", path, body=change, repeatable=True).json()
        except ClientError as error:
            if error.code != "not-found":
                raise
        try:
            return client.request("PUT", path, body={**(new or {}), **change}, headers={"If-None-Match": "*"}).json()
        except ClientError as error:
            if error.code != "exists":
                raise
    noun = resource.rule.kind.partition(" ")[2]
    raise Failure(f"the {noun} {name} comes and goes; try again", Exit.CONFLICT)
