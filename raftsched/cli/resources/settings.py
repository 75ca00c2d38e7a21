"""`raftsched cluster settings`: limits and defaults that hold on every node alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Listing
from raftsched.cli.remote import format_option, remote
from raftsched.cli.resources.resource import viewing
from raftsched.cli.terminal.output import print_for_programs, print_json, print_table
from raftsched.cli.terminal.table import Column
from raftsched.cli.terminal.values import cell
from raftsched.errors import Exit
from raftsched.quantities import parse_size, size_text
from raftsched.surface.plain import settings as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_DEFAULT = "default"
_COLUMNS = [
    Column("SETTING", lambda s: s["name"], "id", 1),
    Column("VALUE", lambda s: _words(s["name"], s["value"]), "prose", 2),
]


def _words(name: str, value: Any) -> str:
    """Returns the value as it is set, and in words where it counts bytes."""
    return f"{value} ({size_text(value)})" if name.endswith("_bytes") and value else cell(value)


@click.group(cls=Listing, short_help="List and change the limits and defaults of the cluster.")
def settings() -> None:
    """Limits and defaults that hold on every node alike. docs/settings.md says what each is for."""


@settings.command("list")
@viewing
def list_(client: Client, fmt: str) -> None:
    """List all settings.

    \b
      raftsched cluster settings
      raftsched cluster settings list -o json
    """
    found = client.get(addresses.GET)
    if not print_for_programs(fmt, found, *found):
        print_table(_COLUMNS, [{"name": name, "value": value} for name, value in found.items()])


@settings.command()
@click.argument("name", metavar="SETTING")
@remote
def get(client: Client, name: str) -> None:
    """Print the value of one setting.

    \b
      raftsched cluster settings get timeout_ceiling
    """
    found = client.get(addresses.GET)
    if name not in found:
        raise Failure(f"there is no setting {name!r}; see 'raftsched cluster settings'", Exit.NOT_FOUND)
    click.echo(cell(found[name]))


@settings.command("set")
@click.argument("changes", metavar="SETTING=VALUE...", nargs=-1, required=True)
@format_option
@remote
def set_(client: Client, changes: tuple[str, ...], fmt: str) -> None:
    """Change settings, all of them or none; 'default' as a value gives a default back.

    They hold for what happens from then on, on every node.

    \b
      raftsched cluster settings set timeout_ceiling=2h backfill_max=500
      raftsched cluster settings set timeout_ceiling=default
      raftsched cluster settings set output_max_bytes=8MiB output_keep=30d
    """
    wanted = _read(changes)
    found = client.request("PATCH", addresses.PATCH, body=wanted, repeatable=True).json()
    if fmt == "json":
        print_json(found)
    else:
        for name in wanted:
            click.echo(name if fmt == "name" else f"{name}={cell(found[name])}")


def _read(changes: Sequence[str]) -> dict[str, Any]:
    """Raises a usage error."""
    found: dict[str, Any] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if not name or not value:
            raise click.UsageError(f"{change!r} says nothing; write SETTING=VALUE, such as timeout_ceiling=2h")
        if name in found:
            raise click.UsageError(f"the setting {name!r} is given twice; give it once")
        found[name] = None if value == _DEFAULT else _value(name, value)
    return found


def _value(name: str, text: str) -> int | str:
    """Raises a usage error."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if not name.endswith("_bytes"):
        return text
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.UsageError(f"{name}={text} {error}") from None
