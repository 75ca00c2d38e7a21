"""`raftsched mcp`: starts the server of the protocol, for the cluster that all commands would ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Command
from raftsched.cli.remote import remote

if TYPE_CHECKING:
    from raftsched.client.aio import AsyncClient
    from raftsched.client.http import Client


@click.command(cls=Command)
@click.option("--allow-writes", is_flag=True, help="Offer tools that change something, too, as far as the token may.")
@remote
def mcp(client: Client, allow_writes: bool) -> None:
    """Serve the cluster's jobs and runs to a language model, by the Model Context Protocol.

    A program that lets a model use tools (an editor, a desktop application, an agent) starts this command and speaks to
    it over standard input and output. It asks the cluster as the other commands do: by --server, a context,
    RAFTSCHED_TOKEN. docs/mcp.md has the settings of usual programs.

    \b
    A token of its own, for reading; and what such a program is to start:
      raftsched tokens create assistant --role viewer --expires-at 2099-01-01T00:00:00Z -o name > assistant.token
      raftsched --server https://10.0.0.1:7401 --token-file assistant.token mcp
      raftsched mcp --allow-writes                  # the cluster in use, with a token that may write

    The tools list and explain jobs and runs, show output, forecasts, dead letters, nodes, and what is wrong. Without
    --allow-writes nothing can be changed. With it there are tools to create, edit, delete, run, pause and resume jobs,
    to end runs and to retry dead letters; the role of the token decides which of them work.

    What a job printed goes to the model, and thereby to whoever runs it. Values of secrets are never in it, and what
    looks like a password is hidden; all else is shown. Answers have at most 24 KiB.

    It needs a package: pip install 'raftsched[mcp]'
    """
    import asyncio
    import logging
    import signal

    try:
        from raftsched.cli.mcp.serving import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise Failure(f"this command needs the package mcp 2 ({error}): pip install 'raftsched[mcp]'") from None
    logging.basicConfig(level=logging.WARNING, format="raftsched mcp: %(message)s")  # to standard error
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread reads standard input, and waits for its next line
    asyncio.run(serve(_async_client(client), allow_writes=allow_writes))


def _async_client(found: Client) -> AsyncClient:
    """Returns a client for asyncio of the same cluster, with the same token."""
    from raftsched.cli.mcp.serving import TIMEOUT_S
    from raftsched.client.aio import AsyncClient
    from raftsched.client.token_file import TokenFile

    token: dict[str, Any] = {}
    if isinstance(found.token, TokenFile):
        token["token_file"] = found.token.path
    elif isinstance(found.token, str):
        token["token"] = found.token
    trust = found.trust
    return AsyncClient(
        [str(server) for server in found.servers],
        timeout=TIMEOUT_S,
        ca_file=trust.ca_file,
        client_cert=trust.client_cert,
        client_key=trust.client_key,
        insecure=trust.insecure,
        **token,
    )
