"""The raftsched command. Sub-commands are imported when they are used, so that starting stays quick.

Nothing here may import aiohttp, lmdb, pysyncobj or dateutil, not even in passing.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import click

from raftsched.cli.failures import failure
from raftsched.cli.lazy import LazyGroup
from raftsched.cli.terminal.output import TOKEN, TOKEN_OF_CONTEXT, TRUST, TRUST_OF_CONTEXT
from raftsched.errors import Exit, RaftschedError
from raftsched.version import __version__

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# in the order of --help
_CLUSTER = {
    "dev": ("dev.dev_command", "dev", "Start a whole cluster on this machine, with sample jobs."),
    "node": ("cluster.node_command", "node", "Run one node of a cluster."),
    "worker": ("cluster.worker_command", "worker", "Run jobs for a cluster, on a machine that is no node of it."),
    "cluster": ("cluster.status", "cluster", "Status, members, settings, leadership, backup."),
    "health": ("cluster.health", "health", "Check that one node is alive or ready; for health checks."),
    "backup": ("backup.group", "backup", "Backups as a habit: to a directory or S3, to any point in time."),
    "ui": ("cluster.page", "ui", "Open the web page of the cluster."),
    "nodes": ("resources.nodes", "nodes", "Nodes and what runs there: list, drain, undrain, label."),
    "workers": ("resources.workers", "workers", "Remote workers, which run jobs without voting: list, get."),
    "bench": ("cluster.bench", "bench", "Measure how fast a running cluster takes jobs and runs them."),
    "keys": ("auth.keys", "keys", "Cluster keys: make one, check a file."),
    "certs": ("auth.certs", "certs", "Certificates of nodes: make an authority, and sign them."),
    "doctor": ("doctor.doctor_command", "doctor", "Find what is wrong, or soon will be, and what to do about it."),
}
_WORK = {
    "jobs": ("jobs.commands", "jobs", "List, create, run, pause, import, ... jobs."),
    "operations": ("jobs.operations", "operations", "Actions on many jobs: list, watch, cancel."),
    "instances": ("runs.instances", "instances", "The runs of jobs: list, output, kill, rerun."),
    "workflows": ("runs.workflows", "workflows", "Runs that were started by the end of others: list, watch, kill."),
    "events": ("runs.events", "events", "Follow changes as they happen."),
    "namespaces": ("resources.namespaces", "namespaces", "Namespaces: owners, defaults, limits of their jobs."),
    "secrets": ("resources.secrets", "secrets", "Secrets that jobs refer to: list, set, delete."),
    "queues": ("resources.queues", "queues", "Queues with limits: list, set, pause, delete."),
    "calendars": ("resources.calendars", "calendars", "Calendars of days without runs: list, set, import."),
    "webhooks": (
        "resources.webhooks",
        "webhooks",
        "Webhooks, which get the outcome of runs: create, test, deliveries.",
    ),
    "dlq": ("runs.dlq", "dlq", "Dead letters, runs that failed for good: list, requeue, purge."),
    "preview": ("jobs.preview", "preview", "Show in words and times when a schedule is due."),
    "forecast": ("jobs.forecast", "forecast", "Show how many runs are due, by queue, beside the slots there are."),
    "tokens": ("auth.tokens", "tokens", "Tokens, who may do what: create, list, revoke, bootstrap."),
    "login": ("auth.login", "login", "Log in at an OpenID Connect issuer, for a context."),
    "logout": ("auth.login", "logout", "Forget that login."),
    "whoami": ("auth.login", "whoami", "Show who you are to the cluster."),
    "oidc": ("auth.oidc", "oidc", "OpenID Connect: whose logins are accepted, with which roles."),
    "audit": ("auth.audit", "audit", "The record of requests: list, verify, export."),
    "contexts": ("contexts", "contexts", "Names for clusters, instead of --server."),
    "completion": ("terminal.completion", "completion", "Print the completion script of your shell."),
}
_COMMANDS = {**_CLUSTER, **_WORK}


class _Root(LazyGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.later)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in (("A cluster", _CLUSTER), ("Work with it", _WORK)):
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, _, line) in commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RaftschedError as e:
            raise failure(e) from None
        except KeyboardInterrupt:
            sys.exit(130)  # as a shell says of what SIGINT ended


@click.group(
    cls=_Root, later=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, "-V", "--version", message="raftsched %(version)s")
@click.option(
    "--server",
    metavar="URL[,URL]",
    help="Nodes to ask; any of them will do (RAFTSCHED_SERVER).  [default: those of a dev cluster that runs in"
    " ./.raftsched/dev, else http://127.0.0.1:7401, 7402 and 7403]",
)
@click.option(
    "--context", metavar="NAME", help="The cluster of this name (RAFTSCHED_CONTEXT); see 'raftsched contexts'."
)
@click.option(
    "--token",
    metavar="SECRET",
    help="Your token, where one is needed (better: RAFTSCHED_TOKEN, or a context).",
)
@click.option("--token-file", metavar="FILE", help="Or the file where it is (RAFTSCHED_TOKEN_FILE).")
@click.option("--ca-file", metavar="FILE", help="For https: the authorities to trust.  [default: those of the system]")
@click.option("--client-cert", metavar="FILE", help="The certificate to show to nodes that ask for one,")
@click.option("--client-key", metavar="FILE", help="and its private key.")
@click.option("--insecure", is_flag=True, help="Allow the token to go to other machines by plain HTTP.")
@click.pass_context
def cli(
    ctx: click.Context,
    server: str | None,
    context: str | None,
    token: str | None,
    token_file: str | None,
    ca_file: str | None,
    client_cert: str | None,
    client_key: str | None,
    insecure: bool,
) -> None:
    """A job scheduler that is its own cluster: three processes, no database, no broker.

    \b
    Try it:
      raftsched dev                                  three nodes and sample jobs, Ctrl-C ends all
      raftsched jobs create tick --every 10s --shell 'date'
      raftsched jobs list
      raftsched instances list --job tick
      raftsched jobs import --from crontab /etc/crontab --dry-run

    \b
    Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 not allowed, 6 no node answers or
    no leader, 7 timeout (it may or may not have happened).
    """
    ctx.obj = server
    ctx.meta[TOKEN] = token
    if token_file is not None and not token:
        from raftsched.client.token_file import token_file as found_in

        ctx.meta[TOKEN] = found_in(token_file)
    if insecure or ca_file or client_cert or client_key:
        from raftsched.client.trust import Trust

        ctx.meta[TRUST] = Trust(ca_file, client_cert, client_key, insecure)
    if context is not None and server is None:
        from raftsched.cli.auth.logins import context_of

        found = context_of(context)
        if found is not None:
            ctx.obj, ctx.meta[TOKEN_OF_CONTEXT] = found.server, found.token
            ctx.meta[TRUST_OF_CONTEXT] = found.trust


def main() -> None:
    """The entry point of the console script; ends the process."""
    _open_standard()
    try:
        try:
            cli.main(prog_name="raftsched")
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still to be written would fail once more
        click.echo(f"raftsched: the output cannot be written: {(error.strerror or '').lower()}", err=True)
        sys.exit(Exit.ERROR)


def _open_standard() -> None:
    """Opens those of the standard descriptors that the caller has closed: the next file or connection would be given
    their numbers, and what is written for people would get into it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


if __name__ == "__main__":
    main()
