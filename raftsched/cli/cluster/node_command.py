"""`raftsched node`: the flags of a node. What it runs is `raftsched.Node`, in a process of its own."""

from __future__ import annotations

from typing import Any

import click

from raftsched.cli.cluster.running import options_of, run_configured
from raftsched.cli.lazy import Command
from raftsched.cli.remote import options
from raftsched.config.flags import NODE


@click.command(cls=Command)
@options(*options_of(NODE))
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

    --run-as says as which user jobs run. Without it, jobs of a root's node run as nobody, and any other node offers
    only http and call. --jobs-as-node lets programs run as the node's own user, who can read its keys.

    Beyond loopback a node answers only /livez and /readyz until there is an admin: 'tokens bootstrap' makes one, on its
    machine. With --open it answers everybody, and warns in the log.

    SIGTERM or Ctrl-C stops it in order: it takes no new runs, and active ones have --grace to end. The node ends the
    rest and hands them back to the others. A second signal cuts that short.

    SIGHUP has it read its certificates, its other files and --config again, and never ends it; its log says what has
    changed, and what a restart takes.

    A member that was away goes on from the log that was kept, as far as that reaches back; one that lacks more gets a
    copy of everything.

    Each setting may also come from RAFTSCHED_ID, RAFTSCHED_DATA, RAFTSCHED_PEERS, RAFTSCHED_LABELS (k=v,k=v), ... or
    from the file given with --config; flags win over variables, variables over the file.
    """
    from raftsched.embedded.reload import wait_until_ready

    wait_until_ready()
    from raftsched.config.node import build

    def start(loaded: Any, source: Any) -> int:
        from raftsched.embedded.process import run

        return run(loaded, source)

    run_configured(NODE, flags, config, build, start)
