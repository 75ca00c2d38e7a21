"""`raftsched apply`: what Python modules declare with @raftsched.job is what is there."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftsched.cli.jobs import pruning
from raftsched.cli.jobs.apply import apply_wanted
from raftsched.cli.jobs.diff import diff_wanted
from raftsched.cli.jobs.job_files import Wanted
from raftsched.cli.lazy import Command
from raftsched.cli.remote import by_name, format_option, job_ref, remote
from raftsched.cli.terminal.progress import progress_option
from raftsched.cli.terminal.values import shown

if TYPE_CHECKING:
    from raftsched.client.declared import Declaration
    from raftsched.client.http import Client

_SAID_MAX = 300  # characters of what a module raised
_OURS = str(Path(__file__).resolve().parents[2])  # where raftsched is


@click.command(cls=Command)
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
@click.option(
    "--pythonpath", "paths", metavar="DIR", multiple=True, type=click.Path(file_okay=False),
    help="Where modules are looked for first; may be repeated.  [default: this directory]",
)  # fmt: skip
@click.option("--diff", is_flag=True, help="Only show what would change, as 'jobs diff' does.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--check", is_flag=True, help="Send nothing when one of the jobs would be refused.")
@click.option("--prune", is_flag=True, help="Delete jobs that these modules declared before, and do not any more.")
@click.option(
    "--prune-max", metavar="N|P%", callback=pruning.most,
    help="Of --prune: do nothing when more jobs would go than this, or than this share of theirs."
    f"  [default: {pruning.DEFAULT_MOST}]",
)  # fmt: skip
@click.option("--allow-empty", is_flag=True, help="Of --prune: the modules may declare no job at all.")
@click.option("--yes", is_flag=True, help="Of --prune: do not ask.")
@format_option
@progress_option
@remote
def apply(
    client: Client, modules: tuple[str, ...], paths: tuple[str, ...], diff: bool, dry_run: bool, check: bool,
    prune: bool, prune_max: str | None, allow_empty: bool, yes: bool, fmt: str,
) -> None:  # fmt: skip
    """Make the jobs that Python modules declare with @raftsched.job. Safe to repeat.

    The modules are imported here, as this machine has them. What they declare, and modules below them do, is created or
    replaced by name, in the way of 'jobs apply': all are compared first, only those that differ are sent, and a job
    that is paused stays paused. Each gets the label declared-in=MODULE, by which --prune finds those that the module
    does not declare any more.

    \b
      raftsched apply shop.tasks --diff
      raftsched apply shop.tasks
      raftsched apply shop.tasks shop.reports --prune
    """
    if not prune and (allow_empty or prune_max is not None or yes):
        raise click.UsageError("--allow-empty, --prune-max and --yes go with --prune")
    if diff and (prune or dry_run or check):
        raise click.UsageError("--diff only shows; leave out --prune, --dry-run and --check, or --diff")
    sys.path[:0] = [str(Path(path).absolute()) for path in paths or (".",)]
    found = _wanted(modules, empty=prune and allow_empty)
    if diff:
        diff_wanted(client, found, fmt)
    from raftsched.client.declared import LABEL

    labels = [f"{LABEL}={module}" for module in dict.fromkeys(modules)] if prune else []
    apply_wanted(client, found, labels, prune_max, yes=yes, check=check, dry_run=dry_run, fmt=fmt)


def _wanted(modules: Sequence[str], *, empty: bool) -> list[Wanted]:
    """Returns the jobs of all modules. Raises a usage error; then nothing was sent."""
    from raftsched.client.declared import NOTHING
    from raftsched.client.encoding import encode

    found: dict[tuple[str, str], Wanted] = {}
    for module in modules:
        declared = _declared(module)
        if not declared and not empty:
            raise click.UsageError(NOTHING.format(module))
        for one in declared:
            try:
                job = json.loads(encode(one.spec(module)))
            except (TypeError, ValueError) as error:
                raise click.UsageError(f"{one.place}: {error}") from None
            wanted = Wanted(one.place, one.namespace, job, expired=False)
            try:
                by_name(wanted.namespace, wanted.name)
            except click.UsageError as error:
                raise click.UsageError(f"{one.place}: {error.message}") from None
            before = found.setdefault((wanted.namespace, wanted.name), wanted)
            if before.job != job:
                raise click.UsageError(f"{job_ref(wanted.where)} is declared by two of the modules; name the outer one")
    return list(found.values())


def _declared(module: str) -> list[Declaration]:
    """Returns the jobs that a module declares. Raises a usage error, with the place, where it cannot be imported."""
    from raftsched.client.declared import declared_by

    if "/" in module or module.startswith(".") or module.endswith(".py"):
        raise click.UsageError(f"{module!r} is no name of a module; write it as in import, such as shop.tasks")
    try:
        return declared_by(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too: scripts end like that when they are imported
        lines = str(error).strip().splitlines()
        said = f"{type(error).__name__}: {shown(lines[0][:_SAID_MAX])}" if lines else type(error).__name__
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
        frames = [f for f in frames if not f.filename.startswith("<frozen") and not f.filename.startswith(_OURS)]
        place = f"; {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
        raise click.UsageError(f"{module} cannot be imported ({said}{place})") from None
