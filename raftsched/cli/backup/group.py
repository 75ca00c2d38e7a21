"""`raftsched backup`."""

from __future__ import annotations

import click

from raftsched.cli.lazy import LazyGroup
from raftsched.cli.terminal.ending import ending_in_order

_LATER = {
    "list": ("backup.listing", "list_points", "Show which points in time can be restored."),
    "restore": ("backup.restore", "restore", "Begin a new cluster with the state of a point in time."),
    "run": ("backup.run", "run", "Back the cluster up, once or every so often."),
    "show": ("backup.show", "show", "Show jobs as they were at a point in time."),
    "verify": ("backup.verify", "verify", "Restore the newest state and compare, on this machine, for a trial."),
}


@click.group(cls=LazyGroup, later=_LATER)
@click.pass_context
def backup(ctx: click.Context) -> None:
    """Back the cluster up as a habit, and restore any point in time.

    PLACE is a directory, or s3://BUCKET/PREFIX (with 'raftsched[s3]' installed; credentials come from AWS_ACCESS_KEY_ID
    and AWS_SECRET_ACCESS_KEY or AWS_SHARED_CREDENTIALS_FILE, other services than AWS are named by --s3-endpoint). It
    gets full backups, and between them all that was written to the cluster's log.

    \b
      raftsched backup run /mnt/backups --every 5m
      raftsched backup list /mnt/backups
      raftsched backup show /mnt/backups --at 2026-01-31T14:00:00Z tick
    """
    ctx.with_resource(ending_in_order())
