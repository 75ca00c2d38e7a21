"""`raftsched doctor`: what is wrong or soon will be, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from raftsched.cli.remote import format_option, remote
from raftsched.cli.terminal.output import print_json, print_table
from raftsched.errors import Exit

if TYPE_CHECKING:
    from raftsched.client.http import Client

State = Literal["ok", "warn", "fail"]
_ORDER: tuple[State, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True)
class Found:
    check: str
    state: State
    says: str
    do: str = ""  # empty when all is well


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

    parts: list[Callable[[], Iterator[Found]]] = [look_at_machine]
    if data is not None:
        parts.append(lambda: look_at_directory(data))
    if not offline:
        parts.insert(0, lambda: look_at_cluster(client))
    found = [one for part in parts for one in part()]
    worst = max((one.state for one in found), key=_ORDER.index)
    if fmt == "json":
        items: list[dict[str, Any]] = [
            {"check": f.check, "state": f.state, "detail": f.says, "do": f.do or None} for f in found
        ]
        print_json({"state": worst, "items": items})
    elif fmt == "name":
        for one in found:
            if one.state != "ok":
                click.echo(one.check)
    else:
        _tell(found)
    sys.exit(int(Exit.ERROR) if worst == "fail" else 0)


def _tell(found: list[Found]) -> None:
    print_table(["", "CHECK", "FOUND"], [[f.state, f.check, f.says] for f in found])
    todo = [f for f in found if f.do]
    if todo:
        click.echo()
    for one in todo:
        click.echo(f"{one.check}: {one.do}")
