"""`raftsched doctor`: what is wrong or soon will be, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.remote import format_option, remote
from raftsched.cli.terminal.output import print_json, print_table
from raftsched.doctor import Finding, worst
from raftsched.errors import Exit

if TYPE_CHECKING:
    from raftsched.client.http import Client


@click.command()
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Also look at this data directory.")
@click.option("--offline", is_flag=True, help="Ask no node: only what is on this machine.")
@format_option
@remote
def doctor(client: Client, data: Path | None, offline: bool, fmt: str) -> None:
    """Look at a cluster from outside and at this machine, and say what is wrong and what to do about it.

    Each check is ok, warn (it works, but not as it should, or not for long) or fail. Exit code 1 when one fails.

    \b
      raftsched doctor
      raftsched --server https://10.0.0.2:7401 doctor -o json | jq '.items[] | select(.state != "ok")'
      raftsched doctor --offline --data /var/lib/raftsched     before a node is started there
    """
    from raftsched.cli.doctor.cluster import look_at_cluster
    from raftsched.cli.doctor.local import look_at_directory, look_at_machine

    parts: list[Callable[[], Iterator[Finding]]] = [look_at_machine]
    if data is not None:
        parts.append(lambda: look_at_directory(data))
    if not offline:
        parts.insert(0, lambda: look_at_cluster(client))
    findings = [finding for part in parts for finding in part()]
    state = worst(findings)
    if fmt == "json":
        items: list[dict[str, Any]] = [
            {"check": f.check, "state": f.state, "detail": f.detail, "do": f.do or None} for f in findings
        ]
        print_json({"state": state, "items": items})
    elif fmt == "name":
        for finding in findings:
            if finding.state != "ok":
                click.echo(finding.check)
    else:
        _print(findings)
    sys.exit(int(Exit.ERROR) if state == "fail" else 0)


def _print(findings: list[Finding]) -> None:
    print_table(["", "CHECK", "FOUND"], [[f.state, f.check, f.detail] for f in findings])
    to_do = [f for f in findings if f.do]
    if to_do:
        click.echo()
    for finding in to_do:
        click.echo(f"{finding.check}: {finding.do}")
