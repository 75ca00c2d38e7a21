"""`raftsched ui`: the web page of a node that answers, in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import remote

if TYPE_CHECKING:
    from raftsched.client.http import Client


@click.command(cls=Command)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@remote
def ui(client: Client, no_browser: bool) -> None:
    """Open the web page: what the cluster does and why, and everything you can do about it.

    Any node serves it, and it goes on at another one when its own dies. Where the cluster wants a token, the page asks
    you for it; your token is never part of the address.

    \b
      raftsched ui
      raftsched ui --server http://10.0.0.1:7401 --no-browser
    """
    client.request("GET", "/livez")  # by one that answers; the next request would ask it first
    address = f"{client.servers[0]}/ui/"
    click.echo(address)
    if not no_browser and not _opened(address):
        click.echo("no browser was found on this machine; open the address in yours", err=True)


def _opened(address: str) -> bool:
    import webbrowser

    return webbrowser.open(address)
