"""Prints what jobs ask for that nobody offers now, on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from raftsched.cli.terminal.values import shown

_SHOWN = 3  # names that one line has


def print_warnings(jobs: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Prints each warning once, with the jobs that have it. `jobs`: the name and the answer of each."""
    found: dict[str, list[str]] = {}
    for name, answer in jobs:
        for warning in answer.get("warnings") or ():
            found.setdefault(warning["detail"], []).append(name)
    for detail, names in found.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        click.echo(f"warning: {', '.join(names[:_SHOWN])}{more}: {shown(detail)}", err=True)
