"""`raftsched backup restore`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from raftsched.cli.backup.place import at_option, points_of, reading_options, repository, way_at
from raftsched.cli.cluster.backup import keys_of, new_node_options, raft_address, tell_restored, unsigned_option
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Command
from raftsched.cli.terminal.progress import Progress, progress_option
from raftsched.errors import StartupError


@click.command(cls=Command)
@reading_options
@unsigned_option
@at_option
@new_node_options
@progress_option
def restore(
    place: str,
    endpoint: str | None,
    cluster: str | None,
    identity: Path | None,
    key_file: Path | None,
    unsigned: bool,
    at: str | None,
    data: Path,
    node: str,
    raft: str,
    paused: bool,
    due: str,
) -> None:
    """Make the data directory of a node that begins a new cluster with the state of a point in time.

    The state is that after one entry of the log: the newest of PLACE, or what --at says. A time means the newest entry
    whose time is not later; times are those of the log, as 'raftsched backup list' shows them. Where later entries are
    kept, but what leads to them is missing, nothing is restored unless --at says that they are to be left out.

    All else is as with 'raftsched cluster restore': stop the old cluster before, and let the other nodes in afterwards,
    with empty data directories. The backup is fetched to $TMPDIR first.

    \b
      raftsched backup restore /mnt/backups --cluster-key-file cluster.key \\
        --data /var/lib/raftsched --id n1 --raft 10.0.0.1:7501
      raftsched backup restore /mnt/backups --at 2026-01-31T14:00:00Z --paused --unsigned --data ...
    """
    from random import SystemRandom

    from raftsched.backups.repository import time_text
    from raftsched.backups.restore import reserved
    from raftsched.backups.restore import restore as make
    from raftsched.backups.verifying import another_way
    from raftsched.store.backup import NotWhole
    from raftsched.system.clock import SystemClock

    address = raft_address(node, raft)
    opened = repository(place, endpoint, identity=identity, keys=lambda: keys_of(key_file, data, unsigned=unsigned))
    with opened as found, TemporaryDirectory(prefix="raftsched-") as fetched, Progress("fetch", sizes=True) as progress:
        _, points = points_of(found, cluster)
        way = way_at(found, points, at)
        file = Path(fetched, "backup")
        progress.total = way.full.size
        try:
            with reserved(data) as work, another_way(points, way):
                found.fetch(way.full, file, progress.at)
                try:
                    done = make(
                        file,
                        data,
                        node,
                        address,
                        work=work,
                        paused=paused,
                        skip=due == "skip",
                        progress=lambda size: progress.at(size, "restored"),
                        rng=SystemRandom(),
                        now_ms=SystemClock().wall_ms(),
                        keys=found.keys,
                        entries=found.entries(way),
                    )
                except StartupError as error:  # it says what is wrong with the copy
                    says = error.detail.replace(str(file), f"{found.where}/{way.full.key}").rstrip(".")
                    if isinstance(error.__cause__, NotWhole):
                        raise NotWhole(says) from None
                    raise Failure(says) from None
        except StartupError as error:  # nothing can be restored there
            raise Failure(error.detail.rstrip(".")) from None
    when = f"after entry {way.index} of {time_text(done.contents.meta.now_ms)}"
    tell_restored(done, data, node, when, paused=paused, unsigned=unsigned)
