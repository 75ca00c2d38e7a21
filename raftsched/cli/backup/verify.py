"""`raftsched backup verify`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from raftsched.cli.backup.place import points_of, reading_options, repository, tell_stranded
from raftsched.cli.cluster.backup import keys_of, unsigned_option
from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option
from raftsched.cli.terminal.output import print_fields, print_for_programs
from raftsched.cli.terminal.progress import Progress, progress_option
from raftsched.errors import Exit


@click.command(cls=Command)
@reading_options
@unsigned_option
@format_option
@progress_option
def verify(
    place: str,
    endpoint: str | None,
    cluster: str | None,
    identity: Path | None,
    key_file: Path | None,
    unsigned: bool,
    fmt: str,
) -> None:
    """Restore the newest state from PLACE into $TMPDIR, say what is in it, and delete it again. No node is needed.

    If there is an earlier full backup, and all of the log since, it also makes the newest full backup from these, and
    compares all rows: COMPARED says from which entry to which. MISSING names entries that the log lacks: no point among
    them can be restored. STRANDED names entries that are kept but cannot be restored, because earlier ones are missing.
    They are read as well, and the exit code is then 1: a copy of the missing entries brings them back. DIGEST is the
    digest of all rows as this version reads them: for one version it is equal for equal states, whichever nodes made
    them.

    \b
      raftsched backup verify /mnt/backups --cluster-key-file cluster.key
      raftsched backup verify /mnt/backups --unsigned
      raftsched backup verify s3://vault/raftsched --identity backup.identity --cluster-key-file cluster.key
    """
    from raftsched.backups.repository import time_text
    from raftsched.backups.verifying import read_stranded, verified

    opened = repository(place, endpoint, identity=identity, keys=lambda: keys_of(key_file, unsigned=unsigned))
    with opened as found, TemporaryDirectory(prefix="raftsched-") as work, Progress("verify", sizes=True) as progress:

        def draw(what: str, done: int, total: int) -> None:
            progress.total = total
            progress.at(done, what)

        which, points = points_of(found, cluster)
        done = verified(found, points, Path(work), draw)
        read_stranded(found, points, draw)
        missing, stranded = points.missing(), points.stranded()
        way, contents = done.way, done.state.contents
    said = {
        "cluster_id": which,
        "index": done.state.index,
        "log_time": time_text(contents.meta.now_ms),
        "full": way.full.index,
        "segments": len(way.segments),
        "compared": None if done.compared is None else {"from": done.compared[0], "to": done.compared[1]},
        "missing": [{"from": first, "to": last} for first, last in missing],
        "stranded": [
            {"from": one.first, "to": one.last, "segments": len(one.segments), "size": one.size} for one in stranded
        ],
        "signed": "not checked" if unsigned else "ok",
        "jobs": contents.jobs,
        "instances": contents.instances,
        "dead_letters": contents.dead_letters,
        "digest": done.digest,
    }
    if not print_for_programs(fmt, said, which):
        jobs = ", ".join(f"{count:,} {state}" for state, count in contents.jobs.items())
        compared = "nothing to compare with yet"
        if any(last == way.full.index for _, last in missing):
            compared = "nothing to compare with: the log does not lead here from the backup before"
        if done.compared is not None:
            compared = f"{done.compared[0]} and the log give the same state as {done.compared[1]}"
        lacks = ", ".join(f"{first} to {last}" for first, last in missing) or "none"
        kept = ", ".join(f"{one.first} to {one.last}" for one in stranded) or "none"
        print_fields({**said, "jobs": jobs or "none", "compared": compared, "missing": lacks, "stranded": kept})
    if stranded:
        tell_stranded(which, points)
        sys.exit(Exit.ERROR)
