"""`raftsched namespaces`: what is said about namespaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched import names
from raftsched.cli.lazy import Group
from raftsched.cli.remote import format_option, options, remote
from raftsched.cli.resources.resource import (
    Resource,
    delete_command,
    get_command,
    list_command,
    listing,
    put_or_patch,
    rows,
    said_fields,
    tell,
)
from raftsched.cli.terminal.output import print_rows
from raftsched.cli.terminal.table import Column
from raftsched.namespace_limits import LIMITS
from raftsched.quantities import is_duration, parse_size, public_name
from raftsched.surface.plain import namespaces as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_NAMESPACES = Resource(addresses.LIST, names.NAMESPACE)
_NONE = "none"
_F = TypeVar("_F", bound=Callable[..., Any])


def _defaults(namespace: Mapping[str, Any]) -> str:
    """Such as "priority=7, queue=b"."""
    return ", ".join(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in namespace["defaults"].items())


def _limits(namespace: Mapping[str, Any]) -> str:
    """Such as "max_running=10, output_keep=30d"."""
    return ", ".join(f"{name}={value}" for name, value in namespace["limits"].items() if value is not None)


_COLUMNS = [
    Column("NAME", lambda n: n["name"], "name", 1),
    Column("DECLARED", lambda n: n["declared"], "state", 4),
    Column("JOBS", lambda n: n["jobs"], "number", 2),
    Column("SECRETS", lambda n: n["secrets"], "number", 6),
    Column("OWNER", lambda n: n["owner"], "name", 3),
    Column("DEFAULTS", _defaults, "text", 7),
    Column("DESCRIPTION", lambda n: n["description"], "text", 5),
]


_LIMITS = tuple(map(public_name, LIMITS))


def _limit_options(function: _F) -> _F:
    """Adds an option for each limit."""
    added = []
    for field, row in LIMITS.items():
        metavar = "TIME" if is_duration(field) else "SIZE" if field.endswith("_bytes") else "N"
        added.append(click.option(_option(public_name(field)), metavar=metavar, help=row.help))
    return options(*added)(function)


def _option(limit: str) -> str:
    return f"--{limit.replace('_', '-')}"


@click.group(cls=Group)
def namespaces() -> None:
    """Namespaces: who owns them, what their jobs take over from them, what they may have and run.

    A job may name any namespace ("default" when it names none). One need not be declared here, unless the setting
    namespaces_strict says so.
    """


list_command(
    namespaces,
    _NAMESPACES,
    _COLUMNS,
    "no namespaces",
    """List the namespaces that are declared, and those that merely have jobs or secrets.

    \b
      raftsched namespaces list
    """,
)


def _shown(namespace: Mapping[str, Any]) -> dict[str, Any]:
    limits = {name: namespace["limits"].get(name) for name in _LIMITS}
    shown = {**namespace, "defaults": _defaults(namespace), **limits}
    del shown["limits"]
    return said_fields(shown)


get_command(
    namespaces,
    _NAMESPACES,
    "NAMESPACE",
    """Show a namespace: its limits and defaults, and how much is in it.

    \b
      raftsched namespaces get billing
    """,
    _shown,
)


@namespaces.command("set")
@click.argument("namespace", metavar="NAMESPACE")
@click.option("--description", metavar="TEXT", help="What it is for; 'none' for nothing.")
@click.option("--owner", metavar="NAME", help="Whose it is; 'none' for nobody's.")
@_limit_options
@click.option(
    "--default",
    "defaults",
    metavar="FIELD=VALUE",
    multiple=True,
    help="The default of FIELD for jobs that do not set it: text, a number or JSON; 'none' for none.",
)
@format_option
@remote
def set_(
    client: Client,
    namespace: str,
    description: str | None,
    owner: str | None,
    defaults: tuple[str, ...],
    fmt: str,
    **limits: str | None,
) -> None:
    """Declare a namespace, or change what is named.

    Its defaults are taken over by jobs that are written from then on. Jobs that exist stay as they are.

    \b
      raftsched namespaces set billing --owner ana --default timezone=Europe/Madrid --default priority=7
      raftsched namespaces set billing --default 'retry={"delays": ["5s", "1m"]}' --max-jobs 500
      raftsched namespaces set billing --max-running 10 --max-starts-per-minute 600 --output-bytes 10GiB
      raftsched namespaces set billing --output-max-bytes 8MiB --output-keep 30d --output-copies 2
      raftsched namespaces set billing --default priority=none
    """
    change: dict[str, Any] = {}
    if description is not None:
        change["description"] = None if description == _NONE else description
    if owner is not None:
        change["owner"] = None if owner == _NONE else owner
    given = {name: text for name in _LIMITS if (text := limits[name]) is not None}
    said = {name: None if text == _NONE else _limit(name, text) for name, text in given.items()}
    if said:
        change["limits"] = said
    if defaults:
        change["defaults"] = _read(defaults)
    found = put_or_patch(client, _NAMESPACES, namespace, change)
    tell(fmt, found, f"{found['name']}: {_limits(found) or 'no limits'}; {_defaults(found) or 'no defaults'}")


_KEY_COLUMNS = [
    Column("KEY", lambda k: k["key"], "name", 1),
    Column("RUNNING", lambda k: k["running"], "number", 2),
    Column("WAITING", lambda k: k["waiting"], "number", 3),
    Column("NEXT", lambda k: k["next_at"], "time", 4),
    Column("RUNS", lambda k: ", ".join(k["runs"][:3]) + (", ..." if k["running"] > 3 else ""), "text", 5),
]


@namespaces.command("keys")
@click.argument("namespace", metavar="NAMESPACE")
@listing()
def keys(client: Client, namespace: str, fmt: str, **given: Any) -> None:
    """List the keys by which runs are limited, as far as runs with them go or wait now.

    RUNNING counts runs that have a permit of the key, WAITING those that wait for one; NEXT is when a rate lets the
    next one go. 'raftsched runs explain' says of one run what it waits for.

    \b
      raftsched namespaces keys billing
    """
    found = rows(client, f"{_NAMESPACES.path_of(namespace)}/keys", given)
    print_rows(fmt, found, _KEY_COLUMNS, lambda key: key["key"], "no keys in use")


delete_command(
    namespaces,
    _NAMESPACES,
    "NAMESPACE",
    """Remove these namespaces. One that has jobs or secrets stays.

    \b
      raftsched namespaces delete billing
    """,
)


def _read(given: tuple[str, ...]) -> dict[str, Any]:
    """Raises a usage error."""
    found: dict[str, Any] = {}
    for one in given:
        field, _, text = one.partition("=")
        if not field or not text:
            raise click.UsageError(f"--default {one!r} says nothing; write FIELD=VALUE, such as priority=7")
        if field in found:
            raise click.UsageError(f"the default {field!r} is given twice; give it once")
        found[field] = None if text == _NONE else _value(text)
    return found


def _value(text: str) -> Any:
    """Numbers and JSON as such, the rest as text."""
    if not (text[0] in "{[-" or text.isdigit()):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--default: {text!r} is not JSON: {error}") from None


def _limit(name: str, text: str) -> int | str:
    """Raises a usage error."""
    if name not in LIMITS:  # a duration: the node reads it
        return text
    if not name.endswith("_bytes"):
        return _whole(name, text)
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.UsageError(f"{_option(name)} {text!r} {error}") from None


def _whole(limit: str, text: str) -> int:
    """Raises a usage error."""
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise click.UsageError(f"{_option(limit)} {text!r} is not a number; write a whole number, or 'none'")
    return int(text)
