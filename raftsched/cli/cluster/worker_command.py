"""`raftsched worker`: the flags of a remote worker, in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.cluster.running import options_of, run_configured
from raftsched.cli.lazy import Command
from raftsched.cli.remote import client, options
from raftsched.cli.terminal.output import TOKEN, TOKEN_OF_CONTEXT, TRUST, TRUST_OF_CONTEXT
from raftsched.client.trust import SYSTEM, from_environment
from raftsched.config.flags import WORKER

if TYPE_CHECKING:
    from raftsched.config.worker import WorkerConfig

_LABELS = click.option("--labels", "more_labels", metavar="KEY=VALUE,...", help="Several labels at once.")


@click.command(cls=Command)
@options(*options_of(WORKER, labels=_LABELS))
@click.pass_context
def worker(ctx: click.Context, /, config: str | None, more_labels: str | None, **flags: Any) -> None:
    """Run jobs for a cluster on this machine, without being a node of it, until SIGTERM or Ctrl-C.

    \b
    A token for it (once), and the worker:
      raftsched tokens create gpu-workers --role worker --queues gpu -o name > worker.token
      raftsched worker --server https://n1:7401,https://n2:7401 --token-file worker.token \\
        --queues gpu --label gpu=a100 --slots 4 --jobs-as-node

    \b
    Jobs come to it by their queue, by labels, or because it has the handler:
      raftsched worker --server http://n1:7401 --handlers shop.tasks --pythonpath /srv/shop
      raftsched jobs create resize --every 1m --shell ./resize --set placement.labels.gpu=a100

    Programs of jobs need --run-as default=USER, or --jobs-as-node if they may run as this worker's own user.

    It runs jobs as a node does, below the same guards, and holds a lease. If it cannot renew the lease, it ends its
    runs before another machine may begin them. It only has to reach one node. If that node dies, it asks the next in
    the list, and its runs go on.

    The default of --name is the name of this machine; a second worker on it needs another one. While a worker works
    under a name, others wait for it. A worker that starts again with the same --data first ends what is left of its
    earlier life, and then replaces its session at once. Without that the name is free when the lease of that session
    has run out (12.5 s).

    SIGTERM or Ctrl-C stops it in order: it takes no new runs, and active ones have --grace to end. The worker ends the
    rest and hands them back to others. A second signal cuts that short.

    At SIGHUP it reads its token, the files of TLS and --config again, and goes on. Its log says what has changed, and
    what needs a restart.

    Each setting may also come from RAFTSCHED_SERVER, RAFTSCHED_NAME, RAFTSCHED_QUEUES, ... or from the file given with
    --config; flags win over variables, variables over the file. The cluster and the token may also be a context's
    ('raftsched contexts'), as for all commands.
    """
    from raftsched.embedded.reload import wait_until_ready

    wait_until_ready()
    from raftsched.client.token_file import TokenFile
    from raftsched.config.worker import build_worker

    environ = dict(os.environ)
    flags["server"] = flags["server"] or ctx.find_root().obj
    flags["labels"] = (*flags["labels"], *(more_labels.split(",") if more_labels else ()))

    def build(settings: Mapping[str, Any]) -> WorkerConfig:
        rest = dict(settings)
        found = _cluster(ctx, rest.pop("server", None))
        if isinstance(found.token, TokenFile):
            rest.setdefault("token_file", str(found.token.path))
        return build_worker(
            rest,
            environ,
            servers=tuple(found.servers),
            token=found.token if isinstance(found.token, str) else None,
            trust=found.trust,
        )

    def start(loaded: Any, source: Any) -> int:
        from raftsched.embedded.worker_process import run

        return run(loaded, source)

    run_configured(WORKER, flags, config, build, start)


def _cluster(ctx: click.Context, server: Any) -> Any:
    """Returns a client of the cluster to work for, which knows where it is and who asks."""
    token: Any = ctx.meta.get(TOKEN) or os.environ.get("RAFTSCHED_TOKEN")
    trust = ctx.meta.get(TRUST, SYSTEM).over(from_environment(os.environ))
    if server is None or server == ctx.find_root().obj:
        token = token or ctx.meta.get(TOKEN_OF_CONTEXT)
        trust = trust.over(ctx.meta.get(TRUST_OF_CONTEXT, SYSTEM))
    return client(",".join(server) if isinstance(server, list) else server, token, trust)
