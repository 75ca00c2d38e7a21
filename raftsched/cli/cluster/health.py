"""`raftsched health`: whether one node is ready, by the same addresses that load balancers ask."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Command
from raftsched.cli.remote import is_said, remote
from raftsched.errors import Exit
from raftsched.system.clock import SystemClock

if TYPE_CHECKING:
    from raftsched.client.http import Client
    from raftsched.client.servers import Server
    from raftsched.client.trust import Trust

ANSWER_S = 3.0  # a node whose event loop does not hang answers these in milliseconds
PAUSE_S = 0.5


@click.command(cls=Command)
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="The node with this data directory.")
@click.option("--live", is_flag=True, help="Only whether its process answers, whatever the cluster does.")
@click.option("--wait", is_flag=True, help="Until it is.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(0.1), default=600, show_default=True, help="Of --wait."
)
@remote
def health(client: Client, data: Path | None, live: bool, wait: bool, timeout: float) -> None:
    """Check that one node is ready: for health checks of containers, and between the steps of an upgrade.

    It asks /readyz (with --live /livez), which need no token. Ready means that the node can serve requests: the cluster
    is formed, has a leader, and this node is not far behind. Exit code 0 when it is, 1 when it is not, 6 when it does
    not answer, 7 when the time of --wait is over.

    \b
      raftsched health --data /var/lib/raftsched
      raftsched health --server https://10.0.0.2:7401 --wait --timeout 120

    With --data it asks the node of this machine that keeps its data there, wherever that listens; else the first server
    of --server. Whoever restarts what is not healthy should say --live: a node without a leader is alive, and a restart
    would only make things worse.
    """
    clock = SystemClock()
    until = clock.monotonic() + timeout
    while True:
        failure = _asked(client, data, "/livez" if live else "/readyz")
        if failure is None:
            click.echo("alive" if live else "ready")
            return
        if not wait:
            raise failure
        if clock.monotonic() + PAUSE_S > until:
            raise Failure(f"not within {timeout:g} s: {failure.message}", Exit.TIMEOUT)
        time.sleep(PAUSE_S)


def _asked(client: Client, data: Path | None, path: str) -> Failure | None:
    """Returns why the node is not as it should be; None when it is."""
    from raftsched.client.connection import BrokenAnswer, Connection
    from raftsched.client.errors import ClientError

    found = _node_of(client, data)
    if isinstance(found, Failure):
        return found
    server, trust = found
    try:
        connection = Connection(server, ANSWER_S, trust)
        try:
            connection.request("GET", path, {})
            status, body = connection.status, connection.body()
        finally:
            connection.close()
    except ClientError as error:
        return Failure(error.detail, error.exit)
    except (OSError, BrokenAnswer, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Failure(f"{server} does not answer: {why.lower()}", Exit.UNAVAILABLE)
    return None if status == 200 else Failure(f"{server}: {_reason(status, body)}")


def _node_of(client: Client, data: Path | None) -> tuple[Server, Trust] | Failure:
    """Returns the node to be asked, and whom to trust for it. It is looked up each time: a node that is yet to start
    has not written its address."""
    from raftsched.client.servers import parse_servers
    from raftsched.security.local_token import ADDRESS_FILE, read_local_url

    if data is None or is_said():
        return client.servers[0], client.trust
    url, ca_file = read_local_url(data)
    if not url:
        return Failure(f"there is no {data / ADDRESS_FILE} to be read: its node has not started yet", Exit.UNAVAILABLE)
    return parse_servers(url)[0], client.trust._replace(ca_file=client.trust.ca_file or ca_file or None)


def _reason(status: int, body: bytes) -> str:
    try:
        said: Any = json.loads(body)
    except ValueError:
        said = None
    reason = said.get("waits_for") or said.get("detail") if isinstance(said, dict) else None
    return str(reason) if reason else f"answers with {status}"
