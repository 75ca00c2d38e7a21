"""`raftsched contexts`: clusters with a name, in ~/.config/raftsched/contexts.toml (or $XDG_CONFIG_HOME)."""

from __future__ import annotations

from typing import IO

import click

from raftsched import names
from raftsched.cli.context_file import read_contexts, write_contexts
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Listing
from raftsched.cli.remote import format_option
from raftsched.cli.terminal.output import TRUST, print_rows
from raftsched.cli.terminal.table import Column
from raftsched.client.contexts import Context
from raftsched.client.trust import Trust
from raftsched.errors import Exit

_COLUMNS = [
    Column("USED", lambda c: "*" if c["current"] else " ", "state", 1),
    Column("NAME", lambda c: c["name"], "name", 2),
    Column("SERVER", lambda c: c["server"], "text", 3),
    Column("TOKEN", lambda c: c["token"], "state", 4),
]
_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True)


@click.group(cls=Listing)
def contexts() -> None:
    """Give clusters a name, instead of --server with each command. --context NAME uses one for a single command."""


@contexts.command("list")
@format_option
def list_(fmt: str) -> None:
    """List contexts; * is the one in use.

    \b
      raftsched contexts list
    """
    found, current = read_contexts()
    rows = [
        {
            "name": name,
            "server": context.server,
            "current": name == current,
            "token": context.token is not None,
            "ca_file": context.trust.ca_file,
            "client_cert": context.trust.client_cert,
            "insecure": context.trust.insecure,
        }
        for name, context in sorted(found.items())
    ]
    print_rows(
        fmt,
        rows,
        _COLUMNS,
        lambda row: str(row["name"]),
        "no contexts; make one: raftsched contexts set prod https://10.0.0.1:7401",
    )


@contexts.command("set")
@click.argument("name", metavar="CONTEXT")
@click.argument("server", metavar="URL[,URL]")
@click.option("--use", "used", is_flag=True, help="Use it from now on, too.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.File("r"),
    help="Take the token from this file, - for stdin. It is kept in the file of contexts, which only you can read.",
)
@click.option("--ca-file", metavar="FILE", type=_FILE, help="The authorities to trust for https.")
@click.option("--client-cert", metavar="FILE", type=_FILE, help="A certificate to show to the servers,")
@click.option("--client-key", metavar="FILE", type=_FILE, help="and its private key.")
@click.option("--insecure", is_flag=True, help="Allow the token to go by plain HTTP.")
@click.pass_context
def set_(
    ctx: click.Context,
    name: str,
    server: str,
    used: bool,
    token_file: IO[str] | None,
    ca_file: str | None,
    client_cert: str | None,
    client_key: str | None,
    insecure: bool,
) -> None:
    """Make a context, or change it. Its token and files stay as long as its servers do.

    \b
      raftsched contexts set prod https://10.0.0.1:7401,https://10.0.0.2:7401 --use
      raftsched contexts set prod https://10.0.0.1:7401 --token-file ~/raftsched-token --ca-file ca.pem
    """
    from raftsched.client.servers import parse_servers

    if not names.CONTEXT.allows(name):
        raise click.UsageError(f"{name!r} is not possible; a context has {names.CONTEXT.rule}")
    try:
        parse_servers(server)
    except ValueError as e:
        raise click.UsageError(str(e)) from None
    found, current = read_contexts()
    before = found.get(name)
    token, login = (before.token, before.login) if before is not None and before.server == server else (None, None)
    if token_file is not None:
        login = None
        token = token_file.read().strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise click.UsageError("--token-file: there is no token in it; one begins with rs_")
    trust = Trust(ca_file, client_cert, client_key, insecure).over(ctx.meta.get(TRUST, Trust()))
    if before is not None and before.server == server:
        trust = trust.over(before.trust)
    write_contexts({**found, name: Context(server, token, trust, login)}, name if used else current)
    click.echo(f"set: {name}" + (", in use" if used or current == name else ""))


@contexts.command()
@click.argument("name", metavar="[CONTEXT]", required=False)
@click.option("--none", is_flag=True, help="Use none.")
def use(name: str | None, none: bool) -> None:
    """Use a context from now on.

    \b
      raftsched contexts use prod
      raftsched contexts use --none
    """
    if (name is None) != none:
        raise click.UsageError("say a name, or --none")
    found, _ = read_contexts()
    if name is not None and name not in found:
        raise Failure(f"there is no context {name!r}; see 'raftsched contexts'", Exit.NOT_FOUND)
    write_contexts(found, name)
    click.echo(f"in use: {name or 'none'}")


@contexts.command()
@click.argument("name", metavar="CONTEXT")
def delete(name: str) -> None:
    """Forget a context.

    \b
      raftsched contexts delete prod
    """
    found, current = read_contexts()
    if found.pop(name, None) is None:
        raise Failure(f"there is no context {name!r}; see 'raftsched contexts'", Exit.NOT_FOUND)
    write_contexts(found, None if current == name else current)
    click.echo(f"deleted: {name}")
