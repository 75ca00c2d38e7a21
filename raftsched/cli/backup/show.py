"""`raftsched backup show`: the jobs of a state that is gone, as the API would have shown them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.backup.place import (
    PLACE_OF_ENVIRONMENT,
    at_option,
    is_place,
    points_of,
    reading_options,
    repository,
    way_at,
)
from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option
from raftsched.cli.runs.states import job_state
from raftsched.cli.terminal.output import print_json, print_rows
from raftsched.cli.terminal.progress import Progress, progress_option
from raftsched.cli.terminal.table import Column
from raftsched.errors import Exit

if TYPE_CHECKING:
    from raftsched.store.view import StoreView

_COLUMNS = [
    Column("ID", lambda j: j["id"], "id", 4),
    Column("NAMESPACE", lambda j: j["namespace"], "name", 2),
    Column("NAME", lambda j: j["name"], "name", 1),
    Column("STATE", job_state, "state", 3),
    Column("NEXT", lambda j: j["next_fire_at"], "time", 5),
    Column("REVISION", lambda j: j["revision"], "number", 6),
]


@click.command(cls=Command)
@reading_options
@click.argument("job", metavar="[JOB]", required=False)
@at_option
@click.option("-N", "--namespace", metavar="NS", help="Only jobs of this namespace.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=1000, show_default=True, help="Jobs at the most.")
@format_option
@progress_option
def show(
    place: str,
    endpoint: str | None,
    cluster: str | None,
    identity: Path | None,
    key_file: Path | None,
    job: str | None,
    at: str | None,
    namespace: str | None,
    limit: int,
    fmt: str,
) -> None:
    """Show the jobs as they were at a point in time, or one JOB (an id, NAMESPACE/NAME, or a NAME) with all its fields.

    A NAME alone is one in the namespace of -N, else in 'default'. Where RAFTSCHED_BACKUPS says the place, a word alone
    is the JOB, unless it is a URL, a path that begins with / or ., or a directory.

    The state is made in $TMPDIR, looked at, and deleted again. No node is needed, and nothing changes. To bring back a
    job that was deleted or changed by mistake, apply what is shown of it.

    \b
      raftsched backup show /mnt/backups --at 2026-01-31T14:00:00Z -N ops
      raftsched backup show /mnt/backups ops/tick --at 123456 > tick.json
    """
    from raftsched.backups.verifying import another_way, made
    from raftsched.store.backup import reading as checked
    from raftsched.store.rebuild import reading

    from_environment = os.environ.get(PLACE_OF_ENVIRONMENT)
    if job is None and from_environment and not is_place(place):
        place, job = from_environment, place
    opened = repository(place, endpoint, identity=identity, key_file=key_file)
    with opened as found, TemporaryDirectory(prefix="raftsched-") as work, Progress("fetch", sizes=True) as progress:
        _, points = points_of(found, cluster)
        way = way_at(found, points, at)
        progress.total = way.full.size
        with another_way(points, way):
            state = made(found, way, Path(work), lambda what, done, total: progress.at(done))
        progress.end()
        with checked(f"{found.where}/{way.full.key}"), reading(state.directory) as view:
            jobs = _jobs(view, state.contents.meta.now_ms, namespace)
            if job is not None:
                jobs = _those(jobs, job, namespace or "default")
            rows = list(islice(jobs, limit + 1))
    if job is not None:
        if not rows:
            raise Failure(f"there was no job {job!r}", Exit.NOT_FOUND)
        print_json(rows[0])
        return
    print_rows(fmt, rows[:limit], _COLUMNS, lambda j: str(j["id"]), "there were no jobs")
    if len(rows) > limit:
        click.echo(f"raftsched: there are more than {limit} jobs; say --limit, or a namespace", err=True)


def _jobs(view: StoreView, now_ms: int, namespace: str | None) -> Iterator[dict[str, Any]]:
    """Yields jobs by id, but for those that the cluster made for itself, and those that wait to be dropped."""
    from raftsched.api.jobs.render import job_json
    from raftsched.core.model import JobState
    from raftsched.core.rows import JOBS, decode_calendar
    from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
    from raftsched.core.tables import Table

    def calendar(name: str) -> bytes | None:
        raw = view.get(Table.CALENDARS, name.encode())
        return None if raw is None else decode_calendar(raw).content

    for row in JOBS.all(view):
        there = row.state is not JobState.DELETED and row.namespace != SYSTEM_NAMESPACE
        if there and namespace in (None, row.namespace):
            yield json.loads(job_json(row, now_ms, calendar))


def _those(jobs: Iterator[dict[str, Any]], said: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Yields the job of an id or a name; `namespace`: of a name alone."""
    for job in jobs:
        if said in (job["id"], f"{job['namespace']}/{job['name']}") or (
            said == job["name"] and job["namespace"] == namespace
        ):
            yield job
            return
