"""`raftsched tokens`: who may do what."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched import names
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Group
from raftsched.cli.remote import check_namespace, format_option, is_said, remote
from raftsched.cli.resources.resource import Resource, each_command, listing, named, print_one, rows, viewing
from raftsched.cli.terminal.output import print_json, print_rows
from raftsched.cli.terminal.table import Column
from raftsched.client.wire import at
from raftsched.errors import Exit
from raftsched.surface.plain import tokens as addresses
from raftsched.surface.plain.enums import ROLE_NAME
from raftsched.surface.plain.tokens import GRANT_ROLE

if TYPE_CHECKING:
    from raftsched.client.http import Client

_TOKENS = Resource(addresses.LIST, names.TOKEN)
_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{13}", re.ASCII)
_PREFIX, _SECRET_BYTES = "rs_", 32  # as nodes make them
_ONCE = "this is shown once: keep it where only who is to use it can read it"


def _namespaces(token: Mapping[str, Any]) -> str:
    found = _or_all(token["namespaces"])
    return ", ".join([found, *(f"{grant['namespace']}={grant['role']}" for grant in token.get("grants", ()))])


def _queues(token: Mapping[str, Any]) -> str | None:
    """Returns the queues whose runs a worker may be given; None for who is given no runs."""
    return _or_all(token.get("queues")) if token["role"] == "worker" else None


def _or_all(names: Sequence[str] | None) -> str:
    return "all" if names is None else ", ".join(names)


_COLUMNS = [
    Column("NAME", lambda t: t["name"], "name", 1),
    Column("ROLE", lambda t: t["role"], "state", 3),
    Column("NAMESPACES", _namespaces, "text", 5),
    Column("QUEUES", _queues, "text", 7),
    Column("STATE", lambda t: t["state"], "state", 2),
    Column("EXPIRES", lambda t: t["expires_at"], "time", 4),
    Column("CREATED", lambda t: t["created_at"], "time", 6),
    Column("BY", lambda t: t["created_by"], "name", 8),
]


@click.group(cls=Group)
def tokens() -> None:
    """Manage tokens, which say who may do what.

    A new cluster is open. 'bootstrap' makes the token of an admin, and from then on every request needs a token:
    --token, else RAFTSCHED_TOKEN, else that of the context (see 'raftsched contexts set --help').
    """


@tokens.command("list")
@listing()
def list_(client: Client, fmt: str, **given: Any) -> None:
    """List tokens, the oldest first. Their secrets are shown only once, when they are made.

    \b
      raftsched tokens list
    """
    print_rows(fmt, rows(client, _TOKENS.path, given), _COLUMNS, named, "no tokens; make one: raftsched tokens create")


def _rate(token: Mapping[str, Any]) -> str | None:
    rate = token.get("rate")
    if rate is None:
        return None
    at_once = f", {token['burst']} at once" if token.get("burst") else ""
    return f"{rate['count']}/{rate['per']}{at_once}"


@tokens.command()
@click.argument("token", metavar="TOKEN")
@viewing
def get(client: Client, token: str, fmt: str) -> None:
    """Show a token, by its name or id.

    \b
      raftsched tokens get web-ci
    """
    found = _find(client, token)
    fields = {**found, "namespaces": _namespaces(found), "rate": _rate(found)}
    if found["role"] == "worker":
        fields["queues"] = _queues(found)
    print_one(fmt, found, fields=fields)


@tokens.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    type=click.Choice(ROLE_NAME),
    required=True,
    help="What it may do; from viewer to admin each includes the ones before.",
)
@click.option(
    "--namespace",
    "-N",
    "--namespaces",
    "namespaces",
    metavar="NS",
    multiple=True,
    help="Only for this, or these with commas between; may be repeated.",
)
@click.option(
    "--queues",
    metavar="QUEUES",
    multiple=True,
    help="Of a worker: the queues whose runs it may be given, with commas between.  [default: all]",
)
@click.option(
    "--grant", "grants", metavar="NS=ROLE", multiple=True, help="A higher role in this namespace; may be repeated."
)
@click.option("--expires-at", metavar="TIME", help="Until then, such as 2030-01-31T00:00:00Z.  [default: for ever]")
@click.option(
    "--rate", metavar="COUNT/PERIOD", help="So many requests a node, such as 100/s.  [default: rate_per_token]"
)
@click.option(
    "--burst", type=click.IntRange(min=1), metavar="N", help="So many at once.  [default: those of two seconds]"
)
@format_option
@remote
def create(
    client: Client,
    name: str,
    role: str,
    namespaces: tuple[str, ...],
    queues: tuple[str, ...],
    grants: tuple[str, ...],
    expires_at: str | None,
    rate: str | None,
    burst: int | None,
    fmt: str,
) -> None:
    """Make a token, and print its secret.

    \b
      raftsched tokens create web-ci --role editor --namespace web
      raftsched tokens create ci --role viewer --grant web=editor --grant billing=operator
      raftsched tokens create dashboard --role viewer --rate 100/s --burst 200 -o name > secret
      raftsched tokens create gpu-workers --role worker --queues render,train --namespaces media
    """
    if burst is not None and rate is None:
        raise click.UsageError("--burst goes with --rate, such as --rate 100/s --burst 200")
    body: dict[str, Any] = {"name": name, "role": role}
    if grants:
        body["grants"] = [_grant(text) for text in grants]
    if namespaces:
        body["namespaces"] = [check_namespace(namespace) for namespace in _listed(namespaces)]
    if queues:
        body["queues"] = _listed(queues)
    if expires_at:
        body["expires_at"] = expires_at
    if rate is not None:
        from raftsched.cli.resources.queues import read_rate

        body["rate"] = read_rate(rate)
    if burst is not None:
        body["burst"] = burst
    _show_secret(fmt, client.post(_TOKENS.path, body))


def _revoke(client: Client, name: str) -> None:
    client.request("DELETE", at(addresses.DELETE, id=_find(client, name)["id"]))
    click.echo(f"revoked: {name}")


each_command(
    tokens,
    "revoke",
    "TOKEN",
    """Revoke tokens, by their names or ids. Each node refuses them as soon as it knows.

    \b
      raftsched tokens revoke web-ci
    """,
    _revoke,
)


@tokens.command()
@click.option("--name", default="root", show_default=True, help="Of the token that is made.")
@click.option("--keep", is_flag=True, help="Leave tokens that were made while requests needed none.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Data directory of a node on this machine: the way back in when tokens are needed and none is at hand.",
)
@format_option
@remote
def bootstrap(client: Client, name: str, keep: bool, data: Path | None, fmt: str) -> None:
    """Make the token of an admin; from then on every request needs a token. Prints its secret.

    Tokens that were made before, while everybody could make one, are revoked by it, unless --keep, and those of an
    issuer (oidc set) are not taken any more. What was there is said: those tokens, and jobs.

    A node that others than its own machine can reach lets nobody in before this was done: say --data there. With --data
    it also works when requests need a token already and the last one is lost: who may read the data directory of a node
    is an admin to it.

    \b
      raftsched tokens bootstrap --data /var/lib/raftsched
      raftsched tokens bootstrap --data /var/lib/raftsched --name root-2
    """
    if data is not None:
        client = _local(client, data)
    secret = _PREFIX + urlsafe_b64encode(os.urandom(_SECRET_BYTES)).rstrip(b"=").decode()
    said = _make_admin(client, name, secret, keep)
    made = {**(said.get("token") or {"name": name, "role": "admin"}), "secret": secret}
    found = said.get("found") or {"tokens": [], "jobs": 0, "jobs_by": []}
    _show_secret(fmt, {**made, "found": found} if fmt == "json" else made)
    for line in _found(found):
        click.echo(line, err=True)
    click.echo("from now on every request needs a token", err=True)


def _make_admin(client: Client, name: str, secret: str, keep: bool) -> dict[str, Any]:
    """Makes the token of an admin. Only the hash of the secret is sent, so that the request can be repeated whatever
    became of it. Raises ClientError."""
    from raftsched.client.errors import ClientError

    admin = {"name": name, "sha256": sha256(secret.encode()).hexdigest()}
    body = {"required": True, "admin": admin, **({"keep": True} if keep else {})}
    try:
        said: dict[str, Any] = client.request("PUT", addresses.SET_ACCESS, body=body).json()
    except ClientError as error:
        if error.status not in (0, 401, 504):
            raise
        client.token = secret
        try:  # an answer may have got lost
            client.get(_TOKENS.path, {"limit": 1})
        except ClientError:
            raise error from None
        return {}
    return said


def _found(found: Mapping[str, Any]) -> Iterator[str]:
    for token in found["tokens"]:
        where = "" if token["namespaces"] is None else f" in {', '.join(token['namespaces'])}"
        where += "".join(f", {grant['role']} in {grant['namespace']}" for grant in token.get("grants", ()))
        who = f", made by {token['created_by']}" if token["created_by"] else ""
        became = "revoked" if token["state"] == "revoked" else "goes on to hold"
        yield f"found: token {token['name']} ({token['role']}{where}{who}): {became}"
    issuer = found.get("oidc")
    if issuer is not None:
        became = "are not taken any more" if issuer["state"] == "revoked" else "go on to be taken"
        yield f"found: tokens of the issuer {issuer['issuer']}, which {became}"
    if found["jobs"]:
        by = ", ".join(f"{one['jobs']:,} by {one['by'] or 'nobody known'}" for one in found["jobs_by"])
        yield f"found: {found['jobs']:,} jobs, which go on to run; of the newest {by}"


@tokens.command("open")
@click.confirmation_option("--yes", prompt="Let everybody who reaches a node do everything?", help="Do not ask.")
@remote
def open_(client: Client) -> None:
    """Open the cluster: requests need no token any more. Tokens stay, and can be needed again (bootstrap).

    \b
      raftsched tokens open --yes
    """
    client.request("PUT", addresses.SET_ACCESS, body={"required": False})
    click.echo("open: requests need no token")


def _listed(given: Sequence[str]) -> list[str]:
    """Returns names that were given one by one or with commas between."""
    return [name.strip() for text in given for name in text.split(",")]


def _grant(text: str) -> dict[str, str]:
    """Raises a usage error."""
    namespace, _, role = text.partition("=")
    if role not in GRANT_ROLE:
        raise click.UsageError(f"--grant {text}: say NAMESPACE=ROLE; the role is one of {', '.join(GRANT_ROLE)}")
    return {"namespace": check_namespace(namespace), "role": role}


def _show_secret(fmt: str, made: Mapping[str, Any]) -> None:
    if fmt == "json":
        print_json(made)
    else:
        click.echo(made["secret"])
        click.echo(f"{made['name']} ({made['role']}): {_ONCE}", err=True)


def _find(client: Client, ref: str) -> dict[str, Any]:
    """Returns a token by id or name. Raises ClientError."""
    from raftsched.client.errors import ClientError

    if _ID.fullmatch(ref):
        try:
            return dict(client.get(at(addresses.GET, id=ref)))
        except ClientError as error:
            if error.status != 404:
                raise
    for token in client.items(_TOKENS.path, {}, None):
        if token["name"] == ref:
            return token
    raise ClientError("not-found", f"there is no token {ref!r}; see 'raftsched tokens list'", status=404)


def _local(client: Client, data: Path) -> Client:
    """Returns a client of the node with this data directory, with its own secret. Raises Failure, ClientError."""
    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client as HttpClient
    from raftsched.client.servers import parse_servers
    from raftsched.security.local_token import FILE, read_local_token, read_local_url

    try:
        secret = read_local_token(data)
    except OSError as error:
        raise Failure(
            f"cannot read {data / FILE}: {(error.strerror or str(error)).lower()}; does its node run?"
        ) from None
    refused = None
    url, ca_file = ("", "") if is_said() else read_local_url(data)
    trust = client.trust
    if url:  # an address of this machine: nobody is on the way
        trust = trust._replace(ca_file=trust.ca_file or ca_file or None, insecure=True)
    for server in parse_servers(url) if url else client.servers:
        found = HttpClient([server], timeout=client.timeout, token=secret, trust=trust)
        try:
            found.get(_TOKENS.path, {"limit": 1})
        except ClientError as error:
            refused = refused or error
        else:
            return found
    if refused is not None and refused.status != 401:
        raise refused
    raise Failure(
        f"no node that was asked takes what is in {data / FILE}; say --server URL of the node whose data that is",
        Exit.AUTH,
    )
