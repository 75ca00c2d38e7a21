"""`raftsched cluster backup | verify | restore`: the whole state in a file. The last two work without a node."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Command
from raftsched.cli.remote import format_option, options, remote
from raftsched.cli.terminal.ending import ending_in_order
from raftsched.cli.terminal.output import print_fields, print_for_programs
from raftsched.cli.terminal.progress import Progress, progress_option
from raftsched.errors import Exit, StartupError
from raftsched.quantities import size_text
from raftsched.security.files import replacing
from raftsched.security.keyring import KEY_FILE, read_keyring
from raftsched.security.sealed_backup import NotOpened, Sealing, is_sealed, opened, read_identity
from raftsched.surface.plain import cluster as addresses
from raftsched.system.regular_files import open_regular

if TYPE_CHECKING:
    from raftsched.backups.restore import Restored
    from raftsched.backups.settling import Settled
    from raftsched.client.http import Client
    from raftsched.security.keyring import Keyring
    from raftsched.store.backup import Contents

_SUM = 65  # bytes: the last line of a backup, the SHA-256 of what stands before it
_SILENT_S = 120.0  # a node writes its copy before it sends the first byte


@click.command(cls=Command)
@click.argument("file", metavar="FILE")
@click.option("--recipient", metavar="RECIPIENT", help="Seal it: only the identity can open it.")
@click.option(
    "--local", is_flag=True, help="Back up what this node has, even without a leader; it may lack the newest changes."
)
@progress_option
@remote
@ending_in_order()
def backup(client: Client, file: str, recipient: str | None, local: bool) -> None:
    """Write the whole state of the cluster to FILE ('-': stdout): jobs, runs, queues, settings; no outputs.

    Any node makes it, as of one moment, while all goes on; all that was acknowledged before is in it. FILE is there
    when it is complete and its checksum right, not before; one of this name is replaced then. Keep it as secret as the
    cluster, or have it sealed for somebody ('raftsched keys recipient --help').

    \b
      raftsched cluster backup raftsched-$(date +%F).backup
      raftsched cluster backup --recipient rsr_... raftsched.backup
      raftsched cluster backup - | ssh vault 'cat > raftsched.backup'
    """
    from raftsched.client.errors import ClientError

    client.timeout = _SILENT_S
    headers: dict[str, str] = {}
    with _target(file) as out, Progress("backup", sizes=True) as progress:

        def answered(found: Mapping[str, str]) -> None:
            headers.update(found)
            length = found.get("content-length", "")
            progress.total = int(length) if length.isdigit() else None

        query = {} if local else {"consistency": "leader"}
        sink = out if recipient is None else _sealing(out, recipient)
        try:
            size = _receive(client, query, sink, progress, answered)
        except ClientError as error:
            if error.code != "no-leader":
                raise
            raise Failure(_without_leader(client, error.detail), Exit.UNAVAILABLE) from None
        if isinstance(sink, Sealing):
            sink.end()
    index = headers.get("raftsched-snapshot-index", "?")
    if index.isdigit() and file != "-":
        tell_kept(client, int(index))
    click.echo(f"backed up: entry {index}, {size_text(size)}", err=file == "-")


def _without_leader(client: Client, why: str) -> str:
    """Returns what to say where no node leads: what each has can be saved without a leader."""
    from raftsched.cli.cluster.views import lost_in

    lost = lost_in(client)
    if lost is not None:
        return "\n".join([f"{lost.says}.", *lost.steps()])
    return (
        f"{why.rstrip('.')}; --local backs up what the node has that is asked, which may lack the newest: 'raftsched"
        " cluster status' shows how far each is (APPLIED)"
    )


def tell_kept(client: Client, index: int) -> None:
    """Tells a node that all up to an entry is kept elsewhere, which its metrics show. Nothing depends on it."""
    from raftsched.client.errors import ClientError

    with suppress(ClientError):
        client.request("GET", addresses.LOG, query={"after": index, "consistency": "leader"})


def no_room(error: OSError) -> Failure | None:
    """Returns what to say where $TMPDIR is full, which gets the whole state; None: it is not. LMDB gives no number."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT) and os.strerror(errno.ENOSPC) not in str(error):
        return None
    return Failure(f"no space left in {gettempdir()}, which gets the whole state: set TMPDIR to where there is more")


def _sealing(out: BinaryIO, recipient: str) -> Sealing:
    """Raises a usage error."""
    try:
        return Sealing(out, recipient)
    except ValueError as error:
        raise click.UsageError(f"--recipient {error}; 'raftsched keys recipient' prints one") from None


def _receive(client: Client, query: dict[str, str], out: BinaryIO | Sealing, progress: Progress, answered: Any) -> int:
    """Writes a backup, and returns its bytes. Raises Failure when it did not arrive whole."""
    digest, held, size = hashlib.sha256(), b"", 0
    for piece in client.stream(addresses.SNAPSHOT, query, silent_s=_SILENT_S, answered=answered):
        out.write(piece)
        size += len(piece)
        held += piece
        digest.update(held[:-_SUM])
        held = held[-_SUM:]
        progress.at(size)
    if held != digest.hexdigest().encode() + b"\n":
        raise Failure("what came is damaged: its checksum is another; try again")
    return size


@contextmanager
def _target(file: str) -> Iterator[BinaryIO]:
    """Gives a file to write into, which takes the other's place when all went well. Raises Failure."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    try:
        with replacing(path) as out:
            yield out
    except OSError as error:
        raise Failure(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


_file = click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))


identity_option = click.option(
    "--identity", metavar="FILE", type=click.Path(path_type=Path), help="What opens it, of a sealed one."
)
key_file_option = click.option(
    "--cluster-key-file", "key_file", metavar="FILE", type=click.Path(path_type=Path),
    help="It must be signed with a key of this file: made by a node of that cluster, and not changed since.",
)  # fmt: skip
unsigned_option = click.option(
    "--unsigned", is_flag=True, help="Take it without a key: anybody may have made it, with any jobs in it."
)


def keys_of(key_file: Path | None, data: Path | None = None, *, unsigned: bool) -> Keyring | None:
    """Returns what a backup has to be signed with; None: with nothing, as --unsigned says. `data`: a directory that may
    have the key already. Raises a usage error, StartupError."""
    if key_file is not None and unsigned:
        raise click.UsageError("--unsigned takes what is signed with no key: leave out it, or --cluster-key-file")
    if unsigned:
        return None
    if key_file is None and data is not None and (data / KEY_FILE).exists():
        key_file = data / KEY_FILE
    if key_file is None:
        raise click.UsageError(
            "say --cluster-key-file FILE, the key of the cluster that it is of: then it is taken only if a node of that"
            " cluster made it. Without that key, or where the cluster had none, say --unsigned, and anybody may have"
        )
    return read_keyring(key_file)


@contextmanager
def _clear(file: Path, identity: Path | None) -> Iterator[Path]:
    """Gives the backup to be read; of a sealed one a copy in $TMPDIR, which is deleted afterwards. Raises Failure,
    OSError."""
    if not is_sealed(file):
        yield file
        return
    if identity is None:
        raise Failure(f"{file} is sealed; say --identity FILE")
    secret = read_identity(identity)
    with TemporaryDirectory(prefix="raftsched-") as directory:
        copy = Path(directory, file.name)
        try:
            with open_regular(file) as source, copy.open("xb") as out:
                for piece in opened(source, secret):
                    out.write(piece)
        except NotOpened as error:
            raise Failure(f"{file} {error}") from None
        except OSError as error:
            raise no_room(error) or error from None
        try:
            yield copy
        except (ValueError, StartupError) as error:  # it says what is wrong with the copy
            raise Failure(str(error).replace(str(copy), str(file)).rstrip(".")) from None


@click.command(cls=Command)
@_file
@identity_option
@key_file_option
@unsigned_option
@format_option
@progress_option
@ending_in_order()
def verify(file: Path, identity: Path | None, key_file: Path | None, unsigned: bool, fmt: str) -> None:
    """Read a backup, say whether it is whole, who made it, and what is in it. No node is needed.

    \b
      raftsched cluster verify raftsched.backup --cluster-key-file cluster.key
      raftsched cluster verify raftsched.backup --unsigned -o json | jq .jobs
      raftsched cluster verify raftsched.backup --identity backup.identity --cluster-key-file cluster.key
    """
    from raftsched.store.backup import NotABackup, require_level, verified_contents
    from raftsched.store.backup import verify as read_all

    try:
        keys = keys_of(key_file, unsigned=unsigned)
        with _clear(file, identity) as clear, Progress("verify", clear.stat().st_size, sizes=True) as progress:
            read_all(clear, progress.at, keys=keys)
            found = verified_contents(clear, proven=keys is not None)
            require_level(found, str(clear))
    except NotABackup as error:
        raise Failure(str(error)) from None
    except StartupError as error:
        raise Failure(error.detail.rstrip(".")) from None
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = (error.strerror or str(error)).lower()
        raise Failure(f"cannot read {file}: {why}", Exit.NOT_FOUND if missing else Exit.ERROR) from None
    said = _said(found, checked=keys is not None)
    if not print_for_programs(fmt, said, str(file)):
        jobs = ", ".join(f"{count:,} {state}" for state, count in said["jobs"].items())
        words = {"size": size_text(said["size"]), "jobs": jobs or "none", "instances": f"{said['instances']:,}"}
        print_fields({**said, **words, "members": ", ".join(said["members"])})


def _said(found: Contents, *, checked: bool) -> dict[str, Any]:
    label = found.label
    return {
        "checksum": "ok",
        "signed": (f"{label.key}, {'ok' if checked else 'not checked'}") if label.mac else "no",
        "index": label.index,
        "term": label.term,
        "made_at": _time(label.at_ms),
        "log_time": _time(found.meta.now_ms),
        "made_by": label.node,
        "version": label.version,
        "cluster_id": label.cluster_id,
        "members": found.members,
        "size": label.size,
        "jobs": found.jobs,
        "instances": found.instances,
        "dead_letters": found.dead_letters,
    }


def _time(at_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


new_node_options = options(
    click.option("--data", metavar="DIR", type=click.Path(path_type=Path), required=True, help="Of the node; empty."),
    click.option("--id", "node", metavar="ID", required=True, help="The node's --id."),
    click.option("--raft", metavar="HOST:PORT", required=True, help="Where other nodes reach its Raft port."),
    click.option("--paused", is_flag=True, help="Start nothing before 'raftsched cluster resume'."),
    click.option(
        "--due",
        type=click.Choice(["run", "skip"]),
        default="run",
        show_default=True,
        help="Run due times since the backup, as misfire says, or record them as skipped.",
    ),
)


@click.command(cls=Command)
@_file
@identity_option
@key_file_option
@unsigned_option
@click.option(
    "--log",
    "old",
    metavar="OLD",
    type=click.Path(path_type=Path),
    help="Add later entries from the log of this data directory: that of the stopped node that made FILE.",
)
@new_node_options
@progress_option
@ending_in_order()
def restore(
    file: Path,
    identity: Path | None,
    key_file: Path | None,
    unsigned: bool,
    old: Path | None,
    data: Path,
    node: str,
    raft: str,
    paused: bool,
    due: str,
) -> None:
    """Make the data directory of a node that begins a new cluster with the state of a backup.

    The node is the only member at first; let the others in as new ones, with empty data directories. Restore on one
    node only: each would begin a cluster of its own, and run all the jobs. Stop the old cluster first: its nodes
    cannot join this one, and their runs would run twice. Runs that were active in the backup count as lost, and run
    again. Each job's misfire policy decides about times that were due since. With --due skip they are recorded as
    SKIPPED: use it if the old cluster has run them. Jobs that run at most once never run again. Fencing tokens go on
    far above those of the old cluster.

    If a majority of the disks is lost, take FILE from the node that has most ('raftsched cluster status'). --log OLD
    adds the later entries of that node's log: those acknowledged last, and perhaps newer ones that never were.

    Sealed values need the cluster key of the backup's time: give the nodes the same key file, or put it into DIR as
    cluster.key. The same key says who made the backup: it is read from DIR, or from --cluster-key-file.

    \b
    On n1, once the old cluster is stopped (docs/backups.md has all of it):
      raftsched cluster restore raftsched.backup --cluster-key-file cluster.key \\
        --data /var/lib/raftsched --id n1 --raft 10.0.0.1:7501
      raftsched node --id n1 --data /var/lib/raftsched ...        as always
    Then n2 and n3, with empty directories and the same flags as always:
      raftsched cluster members add n2 --wait
      raftsched cluster members add n3 --wait
    """
    from random import SystemRandom

    from raftsched.backups.restore import reserved
    from raftsched.backups.restore import restore as make
    from raftsched.system.clock import SystemClock

    address = raft_address(node, raft)
    try:
        file.stat()
    except OSError as error:
        raise Failure(f"cannot read {file}: {(error.strerror or str(error)).lower()}", Exit.NOT_FOUND) from None
    try:
        keys = keys_of(key_file, data, unsigned=unsigned)
        with (
            reserved(data) as work,
            _clear(file, identity) as clear,
            Progress("restore", clear.stat().st_size, sizes=True) as progress,
        ):
            chance, now_ms = SystemRandom(), SystemClock().wall_ms()
            found = make(
                clear,
                data,
                node,
                address,
                work=work,
                paused=paused,
                skip=due == "skip",
                progress=progress.at,
                rng=chance,
                now_ms=now_ms,
                keys=keys,
                log=None if old is None else old / "store",
            )
    except OSError as error:
        raise Failure(f"cannot open {file}: {(error.strerror or str(error)).lower()}") from None
    except StartupError as error:
        raise Failure(error.detail.rstrip(".")) from None
    when = f"of {_time(found.contents.label.at_ms)}"
    if found.behind:
        when += f", and {_counted(found.behind, 'entry', 'entries')} of the log behind it"
    tell_restored(found, data, node, when, paused=paused, unsigned=unsigned)


def _settled(found: Settled) -> Iterator[str]:
    """Gives what became of what was due since the backup, and of what waited in it."""
    if found.skipped:
        times, jobs = _counted(found.skipped, "due time"), _counted(found.skipped_jobs, "job")
        yield f"skipped, and on record with the reason restored: {times} of {jobs}"
    if found.ended:
        yield f"ended, for they may have run and are to run at most once: {_counted(found.ended, 'run')}"
    if found.due_jobs:
        yield f"to be run as misfire says: what was due of {_counted(found.due_jobs, 'job')}"
    if found.waiting:
        yield f"to be run: {_counted(found.waiting, 'run')} that waited"
    if found.live:
        yield f"to be run again, unless at most once: {_counted(found.live, 'run')} that ran, and count as lost"


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def raft_address(node: str, raft: str) -> str:
    """Returns the address of a node's Raft port as it is stored. Raises a usage error."""
    from raftsched.config.addresses import parse_address, parse_peers
    from raftsched.config.values import ConfigError

    try:
        address = parse_address("--raft", raft)
        parse_peers({node: raft})
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return str(address)


def tell_restored(found: Restored, data: Path, node: str, when: str, *, paused: bool, unsigned: bool) -> None:
    """Says what was restored, and what comes next."""
    old = found.contents
    click.echo(
        f"restored: {data} is that of {node}, the only member of the new cluster {found.cluster_id[:8]}, with"
        f" {sum(old.jobs.values()):,} jobs and {old.instances:,} runs as {when}"
    )
    click.echo(
        "anybody may have made the backup: its signature was not asked for"
        if unsigned
        else f"the backup was signed with the cluster key {old.label.key}"
    )
    if not unsigned and not (data / KEY_FILE).exists():
        click.echo(
            f"what is sealed in it needs that key: start {node} with --cluster-key-file, or copy it to"
            f" {data / KEY_FILE} before; else it makes one of its own"
        )
    for line in _settled(found.settled):
        click.echo(line)
    others = [name for name in old.members if name != node]
    click.echo(
        f"start {node} as always"
        + (
            ", and restore on no other node, which would be a cluster of its own with all the jobs; then start the"
            " others with empty data directories, and let them in:"
            if others
            else ""
        )
    )
    for name in others:
        click.echo(f"  raftsched cluster members add {name} --wait")
    if paused:
        click.echo("nothing is started before: raftsched cluster resume")
