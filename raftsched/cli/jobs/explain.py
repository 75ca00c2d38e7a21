"""`raftsched jobs explain`: why a job does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from raftsched.cli.lazy import Command
from raftsched.cli.remote import find_job
from raftsched.cli.resources.resource import viewing_by
from raftsched.cli.terminal.output import print_for_programs, print_prose
from raftsched.cli.terminal.values import cell
from raftsched.surface.plain import explain as explanations

if TYPE_CHECKING:
    from raftsched.client.http import Client


@click.command(cls=Command)
@click.argument("job", metavar="JOB")
@viewing_by(lambda client, job, fmt: {"job": find_job(client, job)["id"]})
def explain(client: Client, job: str, fmt: str) -> None:
    """Say why a job does not run, or when it does.

    First what keeps it from being due, and all that a run of it would wait for if its time came now; then what moves
    its times, and how its newest runs went. 'raftsched runs explain' says it of one run.

    \b
      raftsched jobs explain billing/nightly-report
      raftsched jobs explain billing/nightly-report -o json
    """
    found = client.get(explanations.JOB.format(id=find_job(client, job)["id"]))
    if print_for_programs(fmt, found, found["job"] or found["id"]):
        return
    print_prose(cell(found["text"]))
    if not found["obstacles"]:
        click.echo("Nothing is in its way.")
    for note in found["notes"]:
        print_prose(cell(note["text"]))
