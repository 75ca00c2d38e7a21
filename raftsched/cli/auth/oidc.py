"""`raftsched oidc`: the OpenID Connect issuer whose tokens are taken."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any

import click

from raftsched.cli.lazy import Group
from raftsched.cli.remote import check_namespace, format_option, read_json, remote, source_name
from raftsched.cli.resources.resource import print_one, viewing
from raftsched.cli.terminal.output import print_json
from raftsched.surface.plain import oidc as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_RULE = re.compile(r"([^=]{1,128})=(.{1,256}):(viewer|editor|operator|admin)(?:@([a-z0-9._,-]+))?", re.ASCII)
_READ_ONLY = ("revision",)


@click.group(cls=Group)
def oidc() -> None:
    """Set the OpenID Connect issuer whose logins the cluster accepts, beside the tokens of 'raftsched tokens'.

    Rules say which claims give which role, in all namespaces or in some. Whom no rule fits is refused.
    """


@oidc.command()
@viewing
def get(client: Client, fmt: str) -> None:
    """Show the issuer, and the rules that give roles.

    \b
      raftsched oidc get
      raftsched oidc get -o json > oidc.json
    """
    found = client.get(addresses.GET)
    print_one(fmt, found, fields=_fields(found))


@oidc.command("set")
@click.option("--issuer", metavar="URL", help="As it stands in its tokens (iss).")
@click.option("--audience", metavar="TEXT", help="The audience of its tokens (aud).")
@click.option("--client-id", metavar="TEXT", help="The client of its tokens (azp).")
@click.option("--username-claim", metavar="CLAIM", help="Shown beside the subject, such as email.")
@click.option("--algorithm", "algorithms", metavar="NAME", multiple=True, help="[default: RS256 and ES256]")
@click.option("--rule", "rules", metavar="CLAIM=VALUE:ROLE[@NS,NS]", multiple=True, help="May be repeated.")
@click.option("--file", "-f", "file", type=click.File("rb"), help="All of it as JSON, as 'get -o json' prints it.")
@format_option
@remote
def set_(
    client: Client,
    issuer: str | None,
    audience: str | None,
    client_id: str | None,
    username_claim: str | None,
    algorithms: tuple[str, ...],
    rules: tuple[str, ...],
    file: IO[bytes] | None,
    fmt: str,
) -> None:
    """Set the issuer and the rules, in place of those before.

    \b
      raftsched oidc set --issuer https://login.example.com --audience raftsched \\
        --rule groups=ops:operator --rule groups=web-team:editor@web,web-staging
      raftsched oidc set -f oidc.json
    """
    given: dict[str, Any] = {"issuer": issuer, "audience": audience, "client_id": client_id}
    given |= {"username_claim": username_claim, "algorithms": list(algorithms) or None}
    given |= {"rules": [_rule(text) for text in rules] or None}
    body = {name: value for name, value in given.items() if value is not None}
    if file is not None:
        if body:
            raise click.UsageError("say it all by --file, or all by the other options")
        body = read_json(file.read().decode("utf-8", "replace"), source_name(file))
        if isinstance(body, dict):
            body = {name: value for name, value in body.items() if name not in _READ_ONLY}
    found = client.request("PUT", addresses.PUT, body=body, repeatable=True).json()
    if fmt == "json":
        print_json(found)
    else:
        click.echo(f"set: tokens of {found['issuer']} are taken, by {len(found['rules'])} rules")


@oidc.command()
@click.confirmation_option("--yes", prompt="Take no tokens of an issuer any more?", help="Do not ask.")
@remote
def delete(client: Client) -> None:
    """Accept no logins of an issuer any more. Tokens of 'raftsched tokens' stay.

    \b
      raftsched oidc delete --yes
    """
    client.request("DELETE", addresses.DELETE)
    click.echo("tokens of an issuer are not taken any more")


def _rule(text: str) -> dict[str, Any]:
    """Raises a usage error."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise click.UsageError(f"--rule {text}: say CLAIM=VALUE:ROLE or CLAIM=VALUE:ROLE@NAMESPACE,NAMESPACE")
    found: dict[str, Any] = {"claim": match[1], "value": match[2], "role": match[3]}
    if match[4] is not None:
        found["namespaces"] = [check_namespace(one) for one in match[4].split(",")]
    return found


def _fields(found: dict[str, Any]) -> dict[str, Any]:
    def said(rule: dict[str, Any]) -> str:
        where = "" if rule["namespaces"] is None else "@" + ",".join(rule["namespaces"])
        return f"{rule['claim']}={rule['value']}:{rule['role']}{where}"

    rules = "  ".join(said(rule) for rule in found["rules"])
    return {**found, "algorithms": ", ".join(found["algorithms"]), "rules": rules}
