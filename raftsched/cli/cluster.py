"""`raftsched cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from raftsched.cli.output import Column, cell, print_json, print_table
from raftsched.cli.remote import format_option, remote

if TYPE_CHECKING:
    from raftsched.client.http import Client

_COLUMNS: list[Column] = [
    ("NODE", lambda n: n["id"]),
    ("ROLE", lambda n: n.get("role")),
    ("ALIVE", lambda n: n.get("alive")),
    ("HTTP", lambda n: n.get("http")),
    ("APPLIED", lambda n: n.get("applied_index")),
    ("LAG", lambda n: n.get("lag")),
    ("CLOCK MS", lambda n: n.get("clock_offset_ms")),
    ("RUNNING", lambda n: f"{cell(n.get('running'))}/{cell(n.get('slots'))}"),
    ("VERSION", lambda n: n.get("version")),
]


@click.group()
def cluster() -> None:
    """The cluster itself."""


@cluster.command()
@format_option
@remote
def status(client: Client, fmt: str) -> None:
    """Who leads, in which term, and how far every node is.

    APPLIED is the last log entry a node has, LAG how many committed ones it is behind, CLOCK MS how far its clock is
    off, RUNNING how many of its slots are taken. Any node answers and asks the leader about the others; without a
    leader it knows only itself, and '-' stands for what it does not know.

    \b
      raftsched cluster status
      raftsched cluster status -o json | jq -r .leader
    """
    answer = client.get("/v1/cluster")
    if fmt == "json":
        print_json(answer)
    elif fmt == "name":
        for node in answer["nodes"]:
            click.echo(node["id"])
    else:
        leader = answer.get("leader")
        committed = max((n["commit_index"] for n in answer["nodes"] if n.get("commit_index") is not None), default=0)
        known = f"{leader} leads, term {answer.get('term')}, {committed} entries committed"
        click.echo(known if leader else "no leader at the moment")
        print_table(
            [title for title, _ in _COLUMNS],
            [[cell(get(node)) for _, get in _COLUMNS] for node in answer["nodes"]],
        )
