"""Shared by the commands about repositories: PLACE and what opens it, and --at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.cluster.backup import identity_option, key_file_option, no_room
from raftsched.cli.failures import Failure
from raftsched.cli.remote import options
from raftsched.errors import Exit, StartupError
from raftsched.quantities import size_text

if TYPE_CHECKING:
    from raftsched.backups.points import Points, Way
    from raftsched.backups.repository import Repository
    from raftsched.security.keyring import Keyring

PLACE_OF_ENVIRONMENT = "RAFTSCHED_BACKUPS"
place_argument = click.argument("place", metavar="PLACE", envvar=PLACE_OF_ENVIRONMENT)
endpoint_option = click.option(
    "--s3-endpoint", "endpoint", metavar="URL", help="Where S3 is (RAFTSCHED_S3_ENDPOINT).  [default: AWS]"
)
cluster_option = click.option("--cluster", metavar="ID", help="Which one, if PLACE has several; how its id begins.")
reading_options = options(place_argument, endpoint_option, cluster_option, identity_option, key_file_option)
at_option = click.option(
    "--at", metavar="INDEX|TIME", help="After this entry of the log, or the newest by this time.  [default: the newest]"
)


@contextmanager
def repository(
    place: str,
    endpoint: str | None,
    *,
    recipient: str | None = None,
    identity: Path | None = None,
    key_file: Path | None = None,
    keys: Callable[[], Keyring | None] | None = None,
) -> Iterator[Repository]:
    """Opens a repository. Everything that goes wrong with it is a Failure, with one line. `keys`: reads those that all
    must be signed with, in the place of `key_file`."""
    from raftsched.backups.making import WentBack
    from raftsched.backups.points import NotKept
    from raftsched.backups.repository import Repository
    from raftsched.objectstore.opening import open_store
    from raftsched.objectstore.store import NotUsable, ObjectStoreError
    from raftsched.security.keyring import read_keyring
    from raftsched.security.sealed_backup import read_identity
    from raftsched.store.backup import NotABackup

    try:
        secret = None if identity is None else read_identity(identity)
        if keys is not None:
            signing = keys()
        else:
            signing = None if key_file is None else read_keyring(key_file)
        store = open_store(place, endpoint)
        try:
            yield Repository(store, recipient=recipient, identity=secret, keys=signing)
        finally:
            store.close()
    except NotUsable as error:
        raise click.UsageError(str(error)) from None
    except NotKept as error:
        raise Failure(str(error), Exit.NOT_FOUND) from None
    except WentBack as error:
        raise Failure(str(error), Exit.CONFLICT) from None
    except (NotABackup, ObjectStoreError) as error:
        raise Failure(str(error)) from None
    except StartupError as error:
        raise Failure(error.detail.rstrip(".")) from None
    except OSError as error:
        if (full := no_room(error)) is not None:  # what PLACE cannot take is an ObjectStoreError
            raise full from None
        where = f"{error.filename}: " if error.filename else ""
        raise Failure(f"{where}{(error.strerror or str(error)).lower()}") from None


def is_place(word: str) -> bool:
    """Returns whether a word that may be a PLACE or something else is one: a URL, a path by its first character, or a
    directory that is there."""
    return "://" in word or word.startswith(("/", ".")) or Path(word).is_dir()


def points_of(found: Repository, cluster: str | None) -> tuple[str, Points]:
    """Returns the cluster that is meant, and what is kept of it. Raises NotKept."""
    from raftsched.backups.repository import chosen

    clusters = found.clusters()
    which = chosen(clusters, cluster, found.where)
    return which, clusters[which]


def way_at(found: Repository, points: Points, at: str | None) -> Way:
    """Returns the way to the state that --at means. Raises NotKept, a usage error."""
    from datetime import datetime

    if at is None:
        points.require_newest()
        return points.way_to(None)
    if at.isascii() and at.isdigit() and len(at) < 19:
        return points.way_to(int(at))
    try:
        time = datetime.fromisoformat(at)
        if time.tzinfo is None:
            raise ValueError("says no zone")
        at_ms = round(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"--at {at[:80]!r} is neither the index of an entry nor a time such as 2026-01-31T14:00:00Z or"
            " 2026-01-31T15:00:00+01:00"
        ) from None
    return found.way_at(points, at_ms)


def stranded_json(points: Points) -> list[dict[str, Any]]:
    """Returns what is kept of the log and cannot be restored, as programs are told."""
    from raftsched.backups.repository import time_text

    return [
        {
            "first": one.first,
            "from": time_text(one.from_ms),
            "last": one.last,
            "to": time_text(one.to_ms),
            "segments": len(one.segments),
            "size": one.size,
            "keys": [segment.key for segment in one.segments],
        }
        for one in points.stranded()
    ]


def tell_stranded(cluster: str, points: Points) -> None:
    """Says on stderr what is kept of the log and cannot be restored, and what is missing before it."""
    missing = points.missing()
    for one in stranded_json(points):
        before = [f"{first} to {last}" for first, last in missing if last == one["first"] - 1]
        why = f"entries {before[0]} before them are missing" if before else "no backup is kept that they go on from"
        segments = f"{one['segments']} {'segment' if one['segments'] == 1 else 'segments'}"
        click.echo(
            f"raftsched: {cluster[:8]}: entries {one['first']} to {one['last']} of {one['from']} to {one['to']}"
            f" ({segments}, {size_text(one['size'])}) cannot be restored: {why}",
            err=True,
        )


def check_recipient(recipient: str | None) -> None:
    """Raises a usage error."""
    from io import BytesIO

    from raftsched.security.sealed_backup import Sealing

    if recipient is not None:
        try:
            Sealing(BytesIO(), recipient)
        except ValueError as error:
            raise click.UsageError(f"--recipient {error}; 'raftsched keys recipient' prints one") from None


def duration_ms(option: str, text: str, least_ms: int) -> int:
    """Returns milliseconds. Raises a usage error."""
    from raftsched.quantities import format_duration, parse_duration

    try:
        found = parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {text[:80]!r} {error}") from None
    if found < least_ms:
        raise click.UsageError(f"{option} is {format_duration(least_ms)} at the least, not {text}")
    return found
