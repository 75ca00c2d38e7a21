"""`raftsched login`, `logout` and `whoami`: who one is, to clusters that take tokens of an OpenID Connect issuer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Command
from raftsched.cli.remote import client as client_of
from raftsched.cli.remote import format_option, remote
from raftsched.cli.resources.resource import print_one
from raftsched.cli.terminal.output import TRUST
from raftsched.client.contexts import Context, Login
from raftsched.client.trust import SYSTEM
from raftsched.errors import Exit
from raftsched.surface.plain.whoami import WHOAMI

if TYPE_CHECKING:
    from raftsched.client.http import Client

_SCOPE = "openid profile email groups offline_access"


def _context(ctx: click.Context) -> tuple[str, Context]:
    """Returns the context that is meant, as it is in the file. Raises Failure."""
    from raftsched.cli.context_file import read_contexts

    root = ctx.find_root()
    found, current = read_contexts()
    name = root.params.get("context") or os.environ.get("RAFTSCHED_CONTEXT") or current
    if root.params.get("server") or name is None:
        raise Failure("a login is that of a context; make one: raftsched contexts set NAME URL --use", Exit.USAGE)
    if name not in found:
        raise Failure(f"there is no context {name!r}; see 'raftsched contexts'", Exit.NOT_FOUND)
    return name, found[name]


@click.command(cls=Command)
@click.option("--device", is_flag=True, help="With a code that you type at another device. [the only way]")
@click.option("--issuer", metavar="URL", help="The issuer to log in at.  [default: that of the last login]")
@click.option(
    "--client-id", metavar="ID", help="The id of this client at the issuer.  [default: that of the last login]"
)
@click.option("--scope", metavar="SCOPES", help=f'The scopes to ask for.  [default: "{_SCOPE}"]')
@click.option(
    "--use", type=click.Choice(["id_token", "access_token"]), help="The token to show to nodes.  [default: id_token]"
)
@click.pass_context
def login(
    ctx: click.Context, device: bool, issuer: str | None, client_id: str | None, scope: str | None, use: str | None
) -> None:
    """Log in at an OpenID Connect issuer, for the context in use or --context NAME.

    Prints an address and a code for a browser anywhere, and waits. The token is kept in the file of contexts, which
    only you can read, and renewed when it is past its end. It is never printed.

    \b
      raftsched login --issuer https://login.example.com --client-id raftsched-cli
      raftsched login
      raftsched --context prod login
    """
    import time

    from raftsched.cli.auth.logins import keep
    from raftsched.client import device as flow
    from raftsched.system.clock import SystemClock

    name, context = _context(ctx)
    last = context.login
    issuer, client_id = issuer or (last and last.issuer), client_id or (last and last.client_id)
    if not issuer or not client_id:
        raise click.UsageError("say --issuer URL and --client-id ID; both are remembered")
    same = last is not None and last.issuer == issuer
    scope = scope or (last.scope if last is not None and same else _SCOPE)
    use = use or (last.use if last is not None and same else "id_token")
    addresses = flow.discover(issuer)
    waiting = flow.begin(addresses, client_id, scope)
    click.echo(f"open {waiting.address} and type {waiting.user_code}", err=True)
    if waiting.whole_address:
        click.echo(f"or open {waiting.whole_address}", err=True)
    made = flow.wait(addresses, client_id, waiting, use, SystemClock().monotonic, time.sleep)
    me = client_of(context.server, made.bearer, ctx.meta.get(TRUST, SYSTEM).over(context.trust)).get(WHOAMI)
    keep(name, made.bearer, Login(issuer, client_id, scope, use, made.refresh, made.expires_at))
    if me["kind"] != "oidc":
        click.echo("this cluster needs no token; the login is kept for when it does", err=True)
    click.echo(f"logged in: {name} as {me['name']} ({_role(me)})")


@click.command(cls=Command)
@click.pass_context
def logout(ctx: click.Context) -> None:
    """Forget the login of the context in use, or of --context NAME; its issuer is told so where it can be.

    \b
      raftsched logout
    """
    from raftsched.cli.auth.logins import keep
    from raftsched.client import device as flow
    from raftsched.client.errors import ClientError

    name, context = _context(ctx)
    last = context.login
    if last is None or (context.token is None and last.refresh_token is None):
        raise Failure(f"the context {name} has no login", Exit.NOT_FOUND)
    keep(name, None, last._replace(refresh_token=None, expires_at=None))
    if last.refresh_token is not None:
        try:
            flow.revoke(flow.discover(last.issuer), last.client_id, last.refresh_token)
        except ClientError as error:
            click.echo(f"raftsched: {last.issuer} was not told: {error.detail}", err=True)
    click.echo(f"logged out: {name}")


@click.command(cls=Command)
@format_option
@remote
def whoami(client: Client, fmt: str) -> None:
    """Show who you are to the cluster: name, roles, and until when.

    \b
      raftsched whoami
    """
    found = client.get(WHOAMI)
    shown = {**found, "role": _role(found), "namespaces": _where(found)}
    shown.pop("grants")
    if shown.pop("queues", None) is not None:
        shown["queues"] = ", ".join(found["queues"])
    print_one(fmt, found, fields=shown)


def _where(found: dict[str, Any]) -> str:
    return "all" if found["namespaces"] is None else ", ".join(found["namespaces"]) or "none"


def _role(found: dict[str, Any]) -> str:
    return ", ".join([found["role"], *(f"{one['role']} in {one['namespace']}" for one in found["grants"])])
