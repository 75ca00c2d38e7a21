"""`raftsched logs`, which is `raftsched runs output` too: what a run wrote, or writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import options, remote
from raftsched.cli.runs.instances import path_of, run_of
from raftsched.surface.plain import runs
from raftsched.surface.plain.output import GET, STREAM_NAME

if TYPE_CHECKING:
    from raftsched.client.http import Client

_F = TypeVar("_F", bound=Callable[..., Any])
_options = options(
    click.argument("ref", metavar="JOB|RUN"),
    click.option("-f", "--follow", is_flag=True, help="Go on as output comes, until the attempt ends."),
    click.option("--attempt", metavar="N", type=click.IntRange(1), help="Of this attempt.  [default: the last]"),
    click.option("--tail", type=click.IntRange(0, 100_000), metavar="N", help="Only the last N lines."),
    click.option("--stream", type=click.Choice(STREAM_NAME), help="Only this one.  [default: both as they came]"),
    click.option("--split", is_flag=True, help="Print its stderr to stderr.  [default: both to stdout]"),
)


def _print(
    client: Client, ref: str, follow: bool, attempt: int | None, tail: int | None, stream: str | None, split: bool
) -> None:
    query = {"follow": True if follow else None, "stream": stream, "attempt": attempt, "tail": tail}
    instance = run_of(client, ref)
    path = path_of(GET, instance)
    if split:
        empty = not print_split(client, path, query)
    else:
        from raftsched.client.event_stream import output as follow_output

        empty = True
        for piece in follow_output(client, path, query) if follow else client.stream(path, query):
            empty = False
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    if empty:
        say_where_parts_wrote(client.get(runs.GET.format(id=instance)))


def print_split(client: Client, path: str, query: Mapping[str, Any]) -> bool:
    """Prints an output: what was written to stderr on stderr. Returns whether there was any."""
    from raftsched.client.event_stream import pieces

    found = False
    for said in pieces(client, path, query):
        found = True
        sink = sys.stderr if said["stream"] == "stderr" else sys.stdout
        sink.buffer.write(said["text"].encode())
        sink.buffer.flush()
    return found


def say_where_parts_wrote(found: Mapping[str, Any]) -> None:
    """Says of a run with parts that each of them has an output, and it has none."""
    if found.get("parts"):
        click.echo(
            f"raftsched: each part of it has an output of its own: raftsched runs list --parent {found['id']} has their"
            " ids",
            err=True,
        )


@click.command(cls=Command)
@_options
@remote
def logs(client: Client, **given: Any) -> None:
    """Print the output of a run, or of the newest run of a job, byte for byte, whichever node ran it.

    \b
      raftsched logs billing/nightly-report
      raftsched logs -f billing/nightly-report
      raftsched logs 0d3k5xw2a9f4m@1763600400000 --attempt 1 --tail 20
      raftsched logs --split billing/nightly-report 2>errors.txt
    """
    _print(client, **given)


@click.command(cls=Command)
@_options
@remote
def output(client: Client, **given: Any) -> None:
    """Print the output of a run, or of the newest run of a job, as 'raftsched logs' does.

    \b
      raftsched runs output billing/nightly-report
      raftsched runs output -f 0d3k5xw2a9f4m@1763600400000
    """
    _print(client, **given)
