"""`raftsched backup run`: one round, or one every so often."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import click

from raftsched.cli.backup.place import (
    check_recipient,
    duration_ms,
    endpoint_option,
    place_argument,
    repository,
    tell_stranded,
)
from raftsched.cli.cluster.backup import identity_option, key_file_option, tell_kept
from raftsched.cli.failures import Failure, failure
from raftsched.cli.lazy import Command
from raftsched.cli.remote import remote
from raftsched.client.errors import ClientError
from raftsched.quantities import size_text
from raftsched.system.clock import SystemClock

if TYPE_CHECKING:
    from raftsched.backups.making import Made
    from raftsched.backups.points import Points
    from raftsched.backups.repository import Repository
    from raftsched.client.http import Client

_EVERY_LEAST_MS, _FULL_LEAST_MS = 10_000, 60_000


class _Habit(NamedTuple):
    """The options of each round."""

    place: str
    endpoint: str | None
    recipient: str | None
    identity: Path | None
    key_file: Path | None
    full_every_ms: int
    keep_ms: int | None
    keep_full: int
    verify: bool
    proven: set[str]  # keys of full backups that this process has verified


@click.command(cls=Command)
@place_argument
@click.option("--every", metavar="DURATION", help="Go on, with a round every so often.  [default: one round]")
@click.option(
    "--full-every", metavar="DURATION", default="1d", show_default=True, help="A full backup, when the last is so old."
)
@click.option(
    "--keep", metavar="DURATION", help="Delete what no point of the last DURATION needs.  [default: delete nothing]"
)
@click.option(
    "--keep-full", metavar="N", type=click.IntRange(1, 10_000), default=2, show_default=True,
    help="Full backups that stay, however old.",
)  # fmt: skip
@click.option("--recipient", metavar="RECIPIENT", help="Seal all of it: only the identity can open it.")
@click.option(
    "--verify", is_flag=True, help="Restore each full backup for a trial: nothing is deleted before the newest one was."
)
@endpoint_option
@identity_option
@key_file_option
@remote
def run(
    client: Client,
    place: str,
    every: str | None,
    full_every: str,
    keep: str | None,
    keep_full: int,
    recipient: str | None,
    verify: bool,
    endpoint: str | None,
    identity: Path | None,
    key_file: Path | None,
) -> None:
    """Add to PLACE what it lacks: the new part of the cluster's log, and a full backup when one is due.

    It asks any node, and another one when that fails. A node keeps the newest part of its log. If PLACE is further
    behind than all nodes, it makes a full backup instead, and says that no point between the two can be restored. Run
    it often enough, or let nodes keep more (--log-keep-bytes). You may stop it at any moment, and run it twice at once.
    With --every it reports a round that fails, the next round makes up for it, and SIGHUP ends nothing. Without
    --every the exit code says so, as a job of the cluster itself needs it. It needs an admin's token.

    \b
      raftsched backup run /mnt/backups --every 5m --keep 14d
      raftsched backup run s3://vault/raftsched --every 5m --keep 14d --recipient rsr_...
      raftsched jobs create backup -N ops --every 5m --shell 'raftsched backup run s3://vault/raftsched --keep 14d'
    """
    check_recipient(recipient)
    if recipient is not None and verify and identity is None:
        raise click.UsageError("--verify of sealed backups needs --identity, which opens them")
    habit = _Habit(
        place,
        endpoint,
        recipient,
        identity,
        key_file,
        duration_ms("--full-every", full_every, _FULL_LEAST_MS),
        None if keep is None else duration_ms("--keep", keep, 0),
        keep_full,
        verify,
        set(),
    )
    every_ms = None if every is None else duration_ms("--every", every, _EVERY_LEAST_MS)
    if recipient is None:
        click.echo(f"all that {place} gets can be read by who can read {place}; --recipient seals it", err=True)
    if every_ms is None:
        _round(client, habit)
    else:
        _go_on(client, habit, every_ms / 1000)


def _go_on(client: Client, habit: _Habit, every_s: float) -> None:
    """Never returns; SIGTERM ends it, with what is under way left out. SIGHUP does not: each round reads its files
    anew."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: None)
    clock = SystemClock()
    first = True
    while True:
        began = clock.monotonic()
        try:
            _round(client, habit)
        except Failure as error:
            error.show()
        except click.UsageError as error:
            if first:
                raise
            Failure(error.message).show()  # credentials that are not there just now, for they are being changed
        first = False
        time.sleep(max(0.0, began + every_s - clock.monotonic()))


def _round(client: Client, habit: _Habit) -> None:
    """Raises Failure, a usage error."""
    from raftsched.backups.making import Round, retain
    from raftsched.cli.backup.source import Nodes

    opened = repository(
        habit.place,
        habit.endpoint,
        recipient=habit.recipient,
        identity=habit.identity,
        key_file=habit.key_file,
    )
    try:
        with opened as found, TemporaryDirectory(prefix="raftsched-") as scratch:
            nodes = Nodes(client)
            made = Round(found, nodes, Path(scratch)).add(habit.full_every_ms)
            _tell(made, habit.place)
            if made.segments or made.full is not None:
                tell_kept(client, made.index)

            def verify(points: Points) -> None:
                if habit.verify and points.fulls[-1].key not in habit.proven:
                    habit.proven.add(_verify(found, points, Path(scratch)))

            if made.full is not None:
                points = found.points(nodes.id)
                tell_stranded(nodes.id, points)
                verify(points)
            if habit.keep_ms is not None:
                # An earlier round may have ended before it had verified, or with the news that a backup is bad.
                gone = retain(found, nodes.id, habit.keep_ms, habit.keep_full, SystemClock().wall_ms(), verify)
                if gone:
                    click.echo(f"deleted: {gone} {'file' if gone == 1 else 'files'} that nothing needs any more")
    except ClientError as error:
        raise failure(error) from None


def _tell(made: Made, place: str) -> None:
    from raftsched.backups.repository import time_text

    if made.begins:  # where it is to be mounted and is not, this says so
        click.echo(f"{place} had no backup of this cluster: this is the first one", err=True)
    if made.gap:
        click.echo("the log no longer went back to the last backup: no point between the two can be restored", err=True)
    what = ["a full backup"] if made.full is not None else []
    if made.segments:
        what.append(f"{made.segments} {'segment' if made.segments == 1 else 'segments'} of the log")
    added = " and ".join(what) or "nothing new"
    click.echo(f"backed up: {added}, {size_text(made.size)}, up to entry {made.index} of {time_text(made.at_ms)}")


def _verify(found: Repository, points: Points, scratch: Path) -> str:
    """Returns the key of the full backup that was verified. Raises NotABackup, NotKept."""
    from raftsched.backups.verifying import verified

    with TemporaryDirectory(dir=scratch) as work:
        done = verified(found, points, Path(work))
    jobs = sum(done.state.contents.jobs.values())
    click.echo(f"verified: the state after entry {done.state.index} was restored, {jobs:,} jobs")
    return done.way.full.key
