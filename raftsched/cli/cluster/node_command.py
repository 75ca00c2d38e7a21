"""`raftsched node`: the flags of a node. What it runs is `raftsched.Node`, in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from raftsched.cli.cluster.running import RUNNING
from raftsched.cli.failures import Failure
from raftsched.cli.remote import options
from raftsched.errors import Exit, StartupError


@click.command()
@click.option("--id", "id", metavar="ID", help="Name of this node: a-z, 0-9, '.', '_', '-'; kept for its whole life.")
@click.option("--data", metavar="DIR", help="Where it keeps everything; made when missing, never shared.")
@click.option("--http", metavar="HOST:PORT", help="Listens here for users.  [default: 127.0.0.1:7401]")
@click.option("--raft", metavar="HOST:PORT", help="Listens here for the other nodes.  [default: 127.0.0.1:7501]")
@click.option("--peers", metavar="ID=HOST:PORT,...", help="All nodes and their Raft addresses, this one included.")
@click.option("--advertise-http", metavar="HOST:PORT", help="What others call --http, where that differs.")
@click.option("--advertise-raft", metavar="HOST:PORT", help="What others call --raft, where that differs.")
@click.option("--cluster-key-file", metavar="FILE", help="What all nodes have; made with 'raftsched keys new'.")
@click.option("--raft-cert", metavar="FILE", help="Shown to other nodes; made with 'raftsched certs node'.")
@click.option("--raft-key", metavar="FILE", help="The key of --raft-cert.")
@click.option("--raft-ca", metavar="FILE", help="Who signed the certificates of other nodes; may hold several.")
@click.option("--insecure-raft", is_flag=True, help="No key: all users of this machine are trusted. Loopback only.")
@click.option("--slots", metavar="N", help="Attempts at one time.  [default: 32 for each CPU]")
@click.option("--no-run", is_flag=True, help="Votes and serves the API, and runs nothing: workers do.")
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="For placement; may be repeated.")
@click.option("--join", is_flag=True, help="This is a new node of a cluster that exists; it waits to be let in.")
@click.option("--log-keep-entries", metavar="N", help="Log kept for members that were away.  [default: 50000]")
@click.option("--log-keep-bytes", metavar="SIZE", help="And no more than this, such as 1GiB.  [default: 64MiB]")
@click.option("--leader-wait", metavar="TIME", help="Requests wait so long for a leader.  [default: 1s]")
@click.option(
    "--election-timeout", metavar="TIME", help="Silence of a leader before an election; alike on all.  [default: 1s]"
)
@click.option("--output-keep", metavar="TIME", help="How long output is kept here.  [default: as the settings say]")
@click.option("--output-keep-bytes", metavar="SIZE", help="How much of it; the oldest goes first.  [default: 16GiB]")
@click.option("--output-copies-bytes", metavar="SIZE", help="Of other nodes' output.  [default: as much again]")
@click.option("--output-store", metavar="PLACE", help="Second copies are put there: a directory, s3://BUCKET/PREFIX.")
@click.option("--output-store-bytes", metavar="SIZE", help="Of this node's output there; the oldest goes first.")
@click.option("--s3-endpoint", metavar="URL", help="Where S3 is.  [default: as the environment says, or AWS]")
@click.option(
    "--output-ship", metavar="PLACE", help="Sends what runs print to stdout, loki+https://..., syslog+tcp://..."
)
@click.option("--output-ship-namespaces", metavar="NAME,...", help="Of these namespaces only.  [default: of all]")
@click.option("--output-ship-credentials", metavar="FILE", help="For Loki: one line, USER:PASSWORD or a token.")
@click.option("--output-ship-tenant", metavar="TENANT", help="For Loki: its X-Scope-OrgID.")
@click.option("--output-ship-ca", metavar="FILE", help="Who signed its certificate.  [default: the system's]")
@click.option("--grace", metavar="DURATION", help="What runs have to end when the node stops.  [default: 10s]")
@click.option("--connections-max", metavar="N", help="Connections that are open at one time.  [default: 10000]")
@click.option("--streams-max", metavar="N", help="Streams of events and output that are read.  [default: 200]")
@click.option("--token-streams-max", metavar="N", help="Of these, by one token.  [default: 20]")
@click.option("--token-processor-ms", metavar="MS", help="Processor time of one token a second.  [default: 500]")
@click.option("--proxies", metavar="NET,...", help="Addresses that stand for many callers: of reverse proxies.")
@click.option("--tls-cert", metavar="FILE", help="Speaks TLS to users; the certificate, PEM, with its chain.")
@click.option("--tls-key", metavar="FILE", help="Its private key.")
@click.option("--tls-client-ca", metavar="FILE", help="Users must show a certificate of these authorities.")
@click.option("--tls-ca", metavar="FILE", help="Who signed the other nodes' certificates.  [default: the system's]")
@click.option("--http-hosts", metavar="NAME,...", help="Names in Host beside the advertised one, as behind a proxy.")
@click.option("--insecure-http", is_flag=True, help="Plain HTTP beyond loopback: a proxy with TLS is in front.")
@click.option("--open", is_flag=True, help="No tokens beyond loopback: whoever reaches this node runs programs here.")
@options(*RUNNING)
@click.option("--config", metavar="FILE", envvar="RAFTSCHED_CONFIG", help="TOML file with the same settings.")
def node(config: str | None, **flags: Any) -> None:
    """Run one node of a cluster, in the foreground, until SIGTERM or Ctrl-C.

    \b
    Three nodes on one machine (the first start forms the cluster once all of them answer):
      raftsched keys new --file cluster.key
      PEERS=n1=127.0.0.1:7501,n2=127.0.0.1:7502,n3=127.0.0.1:7503
      raftsched node --id n1 --data n1 --http 127.0.0.1:7401 --raft 127.0.0.1:7501 --peers $PEERS \\
        --cluster-key-file cluster.key
      raftsched node --id n2 --data n2 --http 127.0.0.1:7402 --raft 127.0.0.1:7502 --peers $PEERS \\
        --cluster-key-file cluster.key
      raftsched node --id n3 --data n3 --http 127.0.0.1:7403 --raft 127.0.0.1:7503 --peers $PEERS \\
        --cluster-key-file cluster.key

    \b
    One alone (it makes its key by itself, DATA/cluster.key, which others get when they are to join it):
      raftsched node --id n1 --data ./n1 --jobs-as-node

    \b
    A new node of a cluster that runs; --peers names some of its members. It waits until it is let in:
      raftsched node --id n4 --data n4 --http 127.0.0.1:7404 --raft 127.0.0.1:7504 --join --peers $PEERS \\
        --cluster-key-file cluster.key
      raftsched cluster members add n4 --wait

    \b
    Where others can reach it, with TLS (--insecure-http instead: behind a proxy that has it):
      raftsched node --id n1 --data ./n1 --http 10.0.0.1:7401 --tls-cert n1.pem --tls-key n1.key
      raftsched tokens bootstrap --data ./n1

    Whose user jobs run as is said by --run-as; those of a node that is root are nobody's. Until it is said any other
    node offers http and call only: --jobs-as-node leaves programs to its own user, who reads its keys.

    Beyond loopback a node answers nobody, but for /livez and /readyz, until there is an admin: 'tokens bootstrap' makes
    one, on its machine. --open is the other way, and a warning in the log.

    SIGTERM or Ctrl-C stops it in order: it takes nothing new, and what runs has --grace to come to an end; the rest is
    ended and handed back to the others. A second signal cuts that short.

    SIGHUP has it read its certificates, its other files and --config again, and never ends it; its log says what has
    changed, and what a restart takes.

    A member that was away goes on from the log that was kept, as far as that reaches back; one that lacks more gets a
    copy of everything.

    Each setting may also come from RAFTSCHED_ID, RAFTSCHED_DATA, RAFTSCHED_PEERS, RAFTSCHED_LABELS (k=v,k=v), ... or
    from the file given with --config; flags win over variables, variables over the file.
    """
    from raftsched.config.node import SETTINGS, build
    from raftsched.config.values import ConfigError
    from raftsched.config.work import merged
    from raftsched.embedded.reload import Source, wait_until_ready

    wait_until_ready()
    environ = dict(os.environ)

    def read() -> dict[str, Any]:
        return merged(SETTINGS, flags, environ, Path(config) if config else None)

    try:
        source = Source(read, build, read(), config)
        loaded = build(source.settings)
    except ConfigError as e:
        raise Failure(str(e), e.exit) from None
    from raftsched.embedded.process import run

    try:
        code = run(loaded, source)
    except StartupError as e:
        raise Failure(e.detail, Exit.ERROR) from None
    sys.exit(code)
