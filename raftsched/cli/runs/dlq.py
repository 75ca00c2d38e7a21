"""`raftsched dlq`: dead letters, which are runs that failed for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched.cli.lazy import Group
from raftsched.cli.remote import check_namespace, everything_option, find_job, options, remote
from raftsched.cli.resources.resource import identified, listing, rows
from raftsched.cli.runs.executors import executor_of, job_of
from raftsched.cli.runs.instances import check_id
from raftsched.cli.runs.parts import go_through
from raftsched.cli.runs.why import error_line
from raftsched.cli.terminal.output import print_rows
from raftsched.cli.terminal.progress import progress_option
from raftsched.cli.terminal.table import Column
from raftsched.surface.plain import dead_letters as addresses

if TYPE_CHECKING:
    from raftsched.client.http import Client

_F = TypeVar("_F", bound=Callable[..., Any])
_IDS_IN_BODY = 1_000
_IDS_IN_QUERY = 50
_COLUMNS = [
    Column("ID", lambda i: i["id"], "id", 1),
    Column("JOB", lambda i: job_of(i) or i["job_id"], "name", 3),
    Column("STATE", lambda i: i["state"], "state", 2),
    Column("DEAD SINCE", lambda i: i["dead_since"], "time", 4),
    Column("ATTEMPT", lambda i: i.get("attempt"), "number", 6),
    Column("NODE", executor_of, "name", 7),
    Column("EXIT", lambda i: i.get("exit_code"), "number", 8),
    Column("WHY", lambda i: error_line(i) or i.get("reason"), "text", 5),
]


_filters = options(
    click.option("--job", metavar="JOB", help="Of this job: name, namespace/name or id."),
    click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace."),
    click.option("--name-prefix", metavar="TEXT", help="Of jobs whose name starts so."),
    click.option("--from", "start", metavar="TIME", help="Dead at or after (RFC 3339)."),
    click.option("--to", "end", metavar="TIME", help="Dead before (RFC 3339)."),
)
_choosing = options(
    click.argument("ids", metavar="[RUN]...", nargs=-1),
    _filters,
    *everything_option("--every-dead-letter", "All of them."),
    click.option("--dry-run", is_flag=True, help="Only count."),
    progress_option,
    remote,
)


def _query(client: Client, given: dict[str, Any]) -> dict[str, Any]:
    job, namespace = given["job"], given["namespace"]
    query = {
        "job": find_job(client, job)["id"] if job else None,
        "namespace": check_namespace(namespace) if namespace else None,
        "name_prefix": given["name_prefix"],
        "from": given["start"],
        "to": given["end"],
    }
    return {name: value for name, value in query.items() if value is not None}


@click.group(cls=Group)
def dlq() -> None:
    """Dead letters: runs that failed, with no retry left. They are kept for 14 days, to be looked at."""


@dlq.command("list")
@_filters
@listing(50)
def list_(client: Client, fmt: str, limit: int, everything: bool, **given: Any) -> None:
    """List dead letters, the newest first.

    \b
      raftsched dlq list
      raftsched dlq list --job billing/nightly-report --from 2026-11-20T00:00:00Z
    """
    how = {"limit": limit, "everything": everything}
    found = rows(client, addresses.LIST, how, _query(client, given))
    print_rows(fmt, found, _COLUMNS, identified, "no dead letters")


@dlq.command()
@_choosing
def requeue(client: Client, ids: tuple[str, ...], everything: bool, dry_run: bool, **given: Any) -> None:
    """Run dead letters again, as further attempts with all their retries. Say which: by id, by filter, or
    --every-dead-letter.

    Those of one job wait for each other, unless its runs may overlap.

    \b
      raftsched dlq requeue 0d3k5xw2a9f4m@1763600400000
      raftsched dlq requeue --job billing/nightly-report --dry-run
    """
    wanted = _chosen(client, ids, everything, given)

    def bodies() -> Iterator[dict[str, Any]]:
        if ids:
            for part in _parts(ids, _IDS_IN_BODY):
                yield {"ids": part}
        else:
            yield {"filter": wanted} if wanted else {"all": True}

    def ask(body: dict[str, Any]) -> Any:
        return client.post(addresses.REQUEUE, {**body, "dry_run": dry_run})

    go_through("dead letters", bodies(), ask, "requeued", "requeued", dry_run=dry_run)


@dlq.command()
@_choosing
def purge(client: Client, ids: tuple[str, ...], everything: bool, dry_run: bool, **given: Any) -> None:
    """Take dead letters off the list. Their runs stay as long as others that failed. Say which: by id, by
    filter, or --every-dead-letter.

    \b
      raftsched dlq purge --job billing/nightly-report --to 2026-11-20T00:00:00Z
      raftsched dlq purge --every-dead-letter --dry-run
    """
    from raftsched.client.wire import own_key

    wanted = _chosen(client, ids, everything, given)

    def queries() -> Iterator[dict[str, Any]]:
        if ids:
            for part in _parts(ids, _IDS_IN_QUERY):
                yield {"ids": ",".join(part)}
        else:
            yield wanted or {"all": True}

    def ask(query: dict[str, Any]) -> Any:
        which = {**query, "dry_run": dry_run or None}
        return client.request("DELETE", addresses.DISCARD, query=which, headers=own_key()).json()

    go_through("dead letters", queries(), ask, "discarded", "discarded", dry_run=dry_run)


def _chosen(client: Client, ids: tuple[str, ...], everything: bool, given: dict[str, Any]) -> dict[str, Any]:
    """The filter. Raises a usage error unless there is exactly one of ids, filter and --every-dead-letter."""
    for text in ids:
        check_id(text)
    filtered = any(value is not None for value in given.values())
    if bool(ids) + filtered + everything != 1:
        raise click.UsageError(
            "say which: ids, a filter (--job, --namespace, ...), or --every-dead-letter, and one of these only"
        )
    return _query(client, given)


def _parts(ids: tuple[str, ...], size: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), size):
        yield list(ids[start : start + size])
