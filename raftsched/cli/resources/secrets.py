"""`raftsched secrets`: values that jobs refer to, and that nobody reads back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from raftsched import names
from raftsched.bounds import SECRET_VALUE_MAX
from raftsched.cli.each import each
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Group
from raftsched.cli.remote import check_namespace, format_option, remote
from raftsched.cli.resources.resource import Resource, listing, print_one, rows, tell, viewing
from raftsched.cli.terminal.output import print_rows
from raftsched.cli.terminal.table import Column
from raftsched.client.wire import at
from raftsched.surface.plain import secrets as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client


_COLUMNS = [
    Column("NAMESPACE", lambda s: s["namespace"], "name", 2),
    Column("NAME", lambda s: s["name"], "name", 1),
    Column("SHARED", lambda s: s["shared"], "state", 4),
    Column("SEALED", lambda s: s["sealed"], "state", 5),
    Column("REVISION", lambda s: s["revision"], "number", 6),
    Column("MODIFIED", lambda s: s["modified_at"], "time", 3),
]

_OF_NAMESPACE = addresses.GET.rpartition("/")[0]


def _ref(secret: Any) -> str:
    return f"{secret['namespace']}/{secret['name']}"


def _path(ref: str) -> str:
    """Returns the path of "namespace/name", or of a name in the namespace "default". Raises a usage error."""
    namespace, slash, name = ref.rpartition("/")
    namespace = check_namespace(namespace) if slash else "default"
    return Resource(at(_OF_NAMESPACE, ns=namespace), names.SECRET).path_of(name)


@click.group(cls=Group)
def secrets() -> None:
    """Passwords and the like, which jobs refer to as {"$secret": "name"}. Their values are never shown.

    A secret is named as namespace/name; without a namespace it is in "default".
    """


@secrets.command("list")
@click.option("-N", "--namespace", metavar="NAMESPACE", help="Only those of this namespace.")
@listing()
def list_(client: Client, namespace: str | None, fmt: str, **given: Any) -> None:
    """List secrets, without their values.

    SHARED: jobs of other namespaces may refer to it. SEALED: it is encrypted where it lies.

    \b
      raftsched secrets list -N billing
    """
    query = {} if namespace is None else {"namespace": check_namespace(namespace)}
    print_rows(fmt, rows(client, addresses.LIST, given, query), _COLUMNS, _ref, "no secrets")


@secrets.command()
@click.argument("secret", metavar="SECRET")
@viewing
def get(client: Client, secret: str, fmt: str) -> None:
    """Show what there is to know of a secret, which is not its value.

    \b
      raftsched secrets get billing/smtp
    """
    print_one(fmt, client.get(_path(secret)), _ref)


@secrets.command("set")
@click.argument("secret", metavar="SECRET")
@click.option("--file", "file", type=click.File("rb"), help="Read the value from this file, instead of stdin.")
@click.option("--exact", is_flag=True, help="Keep a line break at the end; without this, one is removed.")
@click.option("--shared/--not-shared", default=None, help="Whether jobs of other namespaces may refer to it.")
@format_option
@remote
def set_(client: Client, secret: str, file: BinaryIO | None, exact: bool, shared: bool | None, fmt: str) -> None:
    """Create a secret, or give it another value. The value is read from stdin or a file, never from the command line,
    where others could see it. At a terminal it is asked for, and not shown.

    \b
      raftsched secrets set billing/smtp < password.txt
      raftsched secrets set billing/smtp --file password.txt --shared
    """
    path = _path(secret)
    body: dict[str, Any] = {"value": _value(file, exact)}
    if shared is not None:
        body["shared"] = shared
    reply = client.request("PUT", path, body=body, repeatable=True)
    found = reply.json()
    tell(fmt, found, f"{'created' if reply.status == 201 else 'set'}: {_ref(found)}", _ref)


@secrets.command()
@click.argument("names", metavar="SECRET...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Also while jobs refer to it; their runs fail then.")
@remote
def delete(client: Client, names: tuple[str, ...], force: bool) -> None:
    """Delete secrets. One that jobs refer to stays, unless it is forced.

    \b
      raftsched secrets delete billing/smtp
    """

    def act(name: str) -> None:
        client.request("DELETE", _path(name) + ("?force=true" if force else ""))
        click.echo(f"deleted: {name}")

    each(names, act)


@secrets.command()
@remote
def reseal(client: Client) -> None:
    """Seal all secrets anew with the key in use: of jobs, of webhooks, and what lies there as it is.

    \b
      raftsched secrets reseal

    For when the cluster got its first key, or another one: docs/secrets.md has the steps. It says how many there were,
    and ends with 1 while something is left that is not sealed with the first key of the node that is asked. Do not take
    the old key out of the key files before it ends with 0.
    """
    resealed = 0
    while True:
        said = client.post(addresses.RESEAL)
        resealed += said["resealed"]
        if not said["left"] or not said["resealed"]:
            break
    click.echo(f"sealed anew with the key {said['key']}: {resealed}")
    if said["left"]:
        lines = [f"{said['left']} are not sealed with it; keep the old key:", *said["unreadable"]]
        raise Failure("\n  ".join(lines))
    click.echo("done: nothing is left that was sealed with another key, or not at all")


def _value(file: BinaryIO | None, exact: bool) -> str:
    """Raises a usage error, which does not show it."""
    if file is None and sys.stdin.isatty():
        asked: str = click.prompt("value", hide_input=True, err=True)
        return asked
    raw = (file or sys.stdin.buffer).read(SECRET_VALUE_MAX + 3)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise click.UsageError("the value is not UTF-8 text; encode it, as base64 for example") from None
    if not exact:
        text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise click.UsageError("the value is empty; give it on stdin, or name its file with --file")
    if len(text.encode()) > SECRET_VALUE_MAX:
        raise click.UsageError(f"the value is too long; {SECRET_VALUE_MAX:,} bytes are allowed")
    return text
