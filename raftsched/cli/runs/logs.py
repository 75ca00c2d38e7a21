"""`raftsched logs`, which is `raftsched runs output` too: what a run wrote, or writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import options, remote
from raftsched.cli.runs.instances import path_of, run_of
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
    click.option("--split", is_flag=True, help="What it wrote to stderr goes to stderr.  [default: both to stdout]"),
)


def _print(
    client: Client, ref: str, follow: bool, attempt: int | None, tail: int | None, stream: str | None, split: bool
) -> None:
    query = {"follow": True if follow else None, "stream": stream, "attempt": attempt, "tail": tail}
    path = path_of(GET, run_of(client, ref))
    if split:
        print_split(client, path, query)
        return
    from raftsched.client.event_stream import output as follow_output

    for piece in follow_output(client, path, query) if follow else client.stream(path, query):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def print_split(client: Client, path: str, query: Mapping[str, Any]) -> None:
    """Prints an output: what was written to stderr on stderr."""
    from raftsched.client.event_stream import pieces

    for said in pieces(client, path, query):
        sink = sys.stderr if said["stream"] == "stderr" else sys.stdout
        sink.buffer.write(said["text"].encode())
        sink.buffer.flush()


@click.command(cls=Command)
@_options
@remote
def logs(client: Client, **given: Any) -> None:
    """Print what a run, or the newest of a job, wrote, byte for byte, whichever node ran it.

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
    """Print what a run, or the newest of a job, wrote, as 'raftsched logs' does.

    \b
      raftsched runs output billing/nightly-report
      raftsched runs output -f 0d3k5xw2a9f4m@1763600400000
    """
    _print(client, **given)
