"""`raftsched events`: what changes in the cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import check_namespace, find_job, remote
from raftsched.cli.runs.executors import executor_of
from raftsched.cli.runs.states import state_option
from raftsched.cli.terminal.output import FORMATS, look, print_lines
from raftsched.cli.terminal.table import Column, table_lines
from raftsched.cli.terminal.values import cell
from raftsched.surface.plain import events as addresses
from raftsched.surface.plain.enums import INSTANCE_STATE_NAME, JOB_STATE

if TYPE_CHECKING:
    from raftsched.client.http import Client

_TYPE_WIDTH = 20


def _about(event: Mapping[str, Any]) -> str | None:
    """Returns the job by its name, or what else it is about."""
    name = f"{event['namespace']}/{event['job']}" if event.get("job") else None
    return name or event.get("job_id") or event.get("subject")


_COLUMNS = [  # a line each as they come: the type is as wide as all of them from the first on
    Column("AT", lambda e: e["at"], "id", 1),
    Column("TYPE", lambda e: e["type"].ljust(_TYPE_WIDTH), "state", 2),
    Column("ABOUT", _about, "name", 3),
    Column("RUN", lambda e: e.get("instance_id"), "id", 5),
    Column("NODE", executor_of, "name", 6),
    Column("WHY", lambda e: e.get("reason"), "text", 4),
]


@click.command(cls=Command)
@click.option("-f", "--follow", is_flag=True, help="Go on as events come, from now unless --after says otherwise.")
@click.option(
    "--type", "types", metavar="TYPE[,TYPE]", help="Of these types, such as instance.failed, or job for all of jobs."
)
@click.option("--job", metavar="JOB", help="Of this job: name, namespace/name or id.")
@click.option("--namespace", "-N", metavar="NS", help="Of the jobs of this namespace.")
@state_option((*JOB_STATE, *INSTANCE_STATE_NAME), "Of what is in one of these states then; may be repeated.")
@click.option("--after", metavar="ID", help="After this event, or this index of the log; or: oldest.")
@click.option(
    "-o",
    "--output",
    "fmt",
    type=click.Choice(list(FORMATS)),
    default="table",
    show_default=True,
    help="For people, a JSON object a line, a YAML document each, or the run or job that each is about.",
)
@remote
def events(
    client: Client, follow: bool, types: str | None, job: str | None, namespace: str | None, state: str | None,
    after: str | None, fmt: str,
) -> None:  # fmt: skip
    """Print the events that are kept, or with -f new ones as they come.

    The connection may break and nodes may go: it goes on at another one, with the next event.

    \b
      raftsched events -f
      raftsched events -f --type instance.failed,instance.timed_out -o json
      raftsched events --job billing/nightly-report --after 4711
    """
    from raftsched.client.event_stream import watch

    query: dict[str, Any] = {
        "follow": follow,
        "type": types,
        "namespace": check_namespace(namespace) if namespace else None,
        "state": state,
        "after": after,
    }
    if job:
        query["job"] = find_job(client, job)["id"]
    coming = watch(client, addresses.LIST, query)
    if fmt in ("table", "wide") and sys.stdout.isatty():
        told = look()
        print_lines(table_lines(_COLUMNS, coming, told if fmt == "table" else told._replace(room=None), together=1))
        return
    for event in coming:
        if fmt == "name":
            click.echo(event.get("instance_id") or event.get("job_id") or cell(event.get("subject")))
        elif fmt == "yaml":
            from raftsched.importers.yaml_text import yaml_text

            click.echo("---\n" + yaml_text(event).rstrip("\n"))
        else:
            click.echo(json.dumps(event, ensure_ascii=False) if fmt in ("json", "jsonl") else _line(event))
        sys.stdout.flush()


def _line(event: dict[str, Any]) -> str:
    words = [event["at"], event["type"].ljust(_TYPE_WIDTH)]
    if "job_id" in event:
        name = f"{event['namespace']}/{event['job']}" if event["job"] else None
        words.append(event.get("instance_id") or event["job_id"])
        words += [cell(one) for one in (name, executor_of(event), event.get("reason")) if one]
    elif event.get("subject"):
        words.append(cell(event["subject"]))
    return " ".join(words).rstrip()
