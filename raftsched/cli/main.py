"""The raftsched command. Sub-commands are imported when they are used, so that starting stays quick.

Nothing here may import aiohttp, lmdb, pysyncobj or dateutil, not even in passing.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from raftsched.cli.failures import failure
from raftsched.cli.lazy import COMPLETE, LazyGroup
from raftsched.cli.terminal.output import TOKEN, TOKEN_OF_CONTEXT, TRUST, TRUST_OF_CONTEXT
from raftsched.errors import Exit, RaftschedError
from raftsched.version import described

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# in the order of "raftsched help"
_WORK = {
    "jobs": ("jobs.commands", "jobs", "List, create, run, pause, import, ... jobs."),
    "apply": ("jobs.apply_modules", "apply", "Make the jobs that Python modules declare."),
    "runs": ("runs.instances", "instances", "The runs of jobs: list, get, explain, kill, rerun."),
    "logs": ("runs.logs", "logs", "Print what a run wrote, or follow it."),
    "workflows": ("runs.workflows", "workflows", "Runs that were started by the end of others: list, watch, kill."),
    "dlq": ("runs.dlq", "dlq", "Dead letters, runs that failed for good: list, requeue, purge."),
    "events": ("runs.events", "events", "Follow changes as they happen."),
    "preview": ("jobs.preview", "preview", "Show in words and times when a schedule is due."),
    "forecast": ("jobs.forecast", "forecast", "Show how many runs are due, by queue, beside the slots there are."),
}
_AROUND = {
    "operations": ("jobs.operations", "operations", "Actions on many jobs: list, watch, cancel."),
    "queues": ("resources.queues", "queues", "Queues with limits: list, set, pause, delete."),
    "calendars": ("resources.calendars", "calendars", "Calendars of days without runs: list, set, import."),
    "namespaces": ("resources.namespaces", "namespaces", "Namespaces: owners, defaults, limits of their jobs."),
    "secrets": ("resources.secrets", "secrets", "Secrets that jobs refer to: list, set, delete."),
    "webhooks": (
        "resources.webhooks",
        "webhooks",
        "Webhooks, which get the outcome of runs: create, test, deliveries.",
    ),
}
_CLUSTER = {
    "doctor": ("doctor.doctor_command", "doctor", "Find what is wrong, or soon will be, and what to do about it."),
    "ui": ("cluster.page", "ui", "Open the web page of the cluster."),
    "mcp": ("mcp.mcp_command", "mcp", "Offer the cluster to a language model as tools (MCP)."),
    "dev": ("dev.dev_command", "dev", "Start a whole cluster on this machine, with sample jobs."),
    "node": ("cluster.node_command", "node", "Run one node of a cluster."),
    "worker": ("cluster.worker_command", "worker", "Run jobs for a cluster, on a machine that is no node of it."),
    "cluster": ("cluster.status", "cluster", "Status, members, settings, leadership, backup."),
    "nodes": ("resources.nodes", "nodes", "Nodes and what runs there: list, drain, undrain, label."),
    "workers": ("resources.workers", "workers", "Remote workers, which run jobs without voting: list, get."),
    "health": ("cluster.health", "health", "Check that one node is alive or ready; for health checks."),
    "backup": ("backup.group", "backup", "Backups as a habit: to a directory or S3, to any point in time."),
    "bench": ("cluster.bench", "bench", "Measure how fast a running cluster takes jobs and runs them."),
    "keys": ("auth.keys", "keys", "Cluster keys: make one, check a file."),
    "certs": ("auth.certs", "certs", "Certificates of nodes: make an authority, and sign them."),
}
_WHO = {
    "login": ("auth.login", "login", "Log in at an OpenID Connect issuer, for a context."),
    "logout": ("auth.login", "logout", "Forget that login."),
    "whoami": ("auth.login", "whoami", "Show who you are to the cluster."),
    "tokens": ("auth.tokens", "tokens", "Tokens, who may do what: create, list, revoke, bootstrap."),
    "oidc": ("auth.oidc", "oidc", "OpenID Connect: whose logins are accepted, with which roles."),
    "audit": ("auth.audit", "audit", "The record of requests: list, verify, export."),
    "contexts": ("contexts", "contexts", "Names for clusters, instead of --server."),
}
_HELP = {
    "help": ("terminal.help_command", "help_", "Show all commands, or the help of one."),
    "completion": ("terminal.completion", "completion", "Print the completion script of your shell."),
    "man": ("terminal.manual", "man", "Write the manual pages."),
    "version": ("version", "version", "Show the version, and the commit that it was built of."),
}
SECTIONS = {
    "Work": _WORK,
    "Around": _AROUND,
    "Cluster": _CLUSTER,
    "Access": _WHO,
    "Help": _HELP,
}
_COMMANDS = {name: row for commands in SECTIONS.values() for name, row in commands.items()}
_USUAL = (
    ("dev", "Start three nodes on this machine, with sample jobs."),
    ("jobs list", "List the jobs, with when each is due next."),
    ("jobs create", "Create a job: tick --every 10s --shell date"),
    ("jobs run", "Run a job now; -f follows its output."),
    ("jobs pause", "Schedule a job no more, or all of a namespace: -N NS."),
    ("runs list", "List the runs: --state FAILED, --job tick, --from TIME."),
    ("runs kill", "End a run, those of --job JOB, or of a namespace: -N NS."),
    ("logs", "Print what a run, or the newest of a job, wrote; -f follows."),
    ("jobs import", "Make jobs of a crontab, or of another scheduler's file."),
    ("doctor", "Find what is wrong with the cluster, and what to do about it."),
)


class _Root(LazyGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.later)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if COMPLETE in os.environ:
            from raftsched.cli.completing import use_own_classes

            use_own_classes()
        return super().main(*args, **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        records = [p.get_help_record(ctx) for p in self.get_params(ctx)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Ten usual things"):
            formatter.write_dl(_USUAL)
        with formatter.section("All commands (a line for each: raftsched help)"):
            formatter.write_dl([(title, ", ".join(commands)) for title, commands in SECTIONS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RaftschedError as e:
            raise failure(e) from None
        except KeyboardInterrupt:
            sys.exit(130)  # as a shell says of what SIGINT ended
        except BrokenPipeError:
            _end_unread()


def _say_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        click.echo(f"raftsched {described()}")
        ctx.exit()


@click.group(
    cls=_Root,
    later=_COMMANDS,
    second_names={"instances": "runs"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "-V", "--version", is_flag=True, expose_value=False, is_eager=True, callback=_say_version,
    help="Show the version and exit.",
)  # fmt: skip
@click.option(
    "--server",
    metavar="URL[,URL]",
    help="Nodes to ask (RAFTSCHED_SERVER).  [default: the context in use, the dev cluster here, or ports 7401-7403]",
)
@click.option("--context", metavar="CONTEXT", help="Or the name of a cluster (RAFTSCHED_CONTEXT).")
@click.option("--token", metavar="VALUE", help="Your token (better: RAFTSCHED_TOKEN, or a context).")
@click.option("--token-file", metavar="FILE", help="Or the file where it is (RAFTSCHED_TOKEN_FILE).")
@click.option("--ca-file", metavar="FILE", help="For https: the authorities to trust.  [default: as the system]")
@click.option("--client-cert", metavar="FILE", help="The certificate for nodes that ask for one,")
@click.option("--client-key", metavar="FILE", help="and its private key.")
@click.option("--insecure", is_flag=True, help="Let the token go to other machines by plain HTTP.")
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
    """A job scheduler that is its own cluster, without a database or a broker.

    Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 not allowed, 6 no node answers or no leader, 7
    timeout (unknown outcome).
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


def main(args: Sequence[str] | None = None, prog_name: str = "raftsched") -> None:
    """The entry point of the console script; ends the process. `args`: None, those of the process."""
    _open_standard()
    try:
        try:
            cli.main(args, prog_name)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _end_unread()
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        _write_nowhere()
        click.echo(f"raftsched: the output cannot be written: {(error.strerror or '').lower()}", err=True)
        sys.exit(Exit.ERROR)


def _end_unread() -> NoReturn:
    """Ends quietly where who reads the output reads no further (`| head`), with the code that a shell has for it."""
    import signal

    _write_nowhere()
    sys.exit(128 + signal.SIGPIPE)


def _write_nowhere() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still to be written would fail once more


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
