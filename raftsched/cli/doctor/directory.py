"""The checks of `doctor` that look at the data directory of a node, whether the node runs or not."""

from __future__ import annotations

import os
import resource
import stat
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from raftsched.cli.doctor.guarded import guarded, reason
from raftsched.doctor import Finding
from raftsched.doctor.disks import DISK_FAIL, DISK_WARN
from raftsched.doctor.machines import judged_file_system
from raftsched.errors import StartupError
from raftsched.lost_majority import ELSE, HEALTHY
from raftsched.quantities import size_text
from raftsched.security.keyring import KEY_FILE, read_keyring
from raftsched.security.private import MADE, wide_in
from raftsched.system import machine
from raftsched.unfinished import said_of, unfinished_restore

MAP_BYTES = 64 << 30  # of address space, that the store maps
FLUSHES = 30
FLUSH_WARN_MS, FLUSH_FAIL_MS = 20.0, 250.0
INODES = 10_000
_PAGE = bytes(4096)


def look_at_directory(data: Path, key_file: Path | None = None) -> Iterator[Finding]:
    """Gives the findings about a data directory, which need not be there yet. `key_file`: where the cluster key is, if
    not in it."""
    wrong = _not_a_place(data)
    if wrong is not None:
        yield wrong
        return
    place = next((p for p in (data, *data.absolute().parents) if os.path.isdir(p)), Path("/"))
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        do = "mount it so that it can be written; where the kernel did that after an error, dmesg says why"
        yield Finding("data", "fail", f"the file system of {place} is mounted read-only", do)
    elif not os.access(place, os.W_OK | os.X_OK):
        do = "run this as the node's user, or as root; if this is the node's user, give it the directory: chown"
        yield Finding("data", "fail", f"{place} is not writable by the user {os.getuid()}", f"{do} {place}")
        return
    else:
        yield from guarded("data", lambda: [_kept_private(data)])
    yield from guarded("user", lambda: _owner(data))
    key = key_file or data / KEY_FILE
    yield from guarded("cluster-key", lambda: _cluster_key(key, given=key_file is not None))
    yield from guarded("store", lambda: _store(data))
    yield from guarded("file-system", lambda: [judged_file_system(machine.file_system(place.resolve()))])
    yield from guarded("room", lambda: _room(place))
    yield from guarded("address-space", lambda: [_address_space()])
    yield from guarded("flush", lambda: [_flushes(place)])


def runs_on(data: Path) -> bool | None:
    """Returns whether a node has the directory open. None: this user may not look."""
    from raftsched.store import examination

    try:
        with examination.held(data / "store"):
            return False
    except examination.InUse:
        return True
    except PermissionError:
        return None
    except (OSError, ValueError):
        return False


def _not_a_place(data: Path) -> Finding | None:
    """Returns what keeps it from being a directory, or from being made as one. None: nothing."""
    do = "say another one"
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            data.stat()
        first = next((p for p in (data, *data.absolute().parents) if os.path.lexists(p)), Path("/"))
        if not os.path.isdir(first) and os.path.islink(first):
            do = "make what the link leads to, or remove the link"
            return Finding("data", "fail", f"{first} is a link to {os.readlink(first)}, which is not there", do)
        if not os.path.isdir(first):
            return Finding("data", "fail", f"{first} is not a directory", do)
    except (OSError, ValueError) as error:
        if isinstance(error, PermissionError):
            do = "run this as the node's user, or as root"
        return Finding("data", "fail", f"the data directory cannot be used: {reason(error)}", do)
    return None


def _kept_private(data: Path) -> Finding:
    if not data.exists():
        return Finding("data", "ok", f"{data} will be made")
    if data.stat().st_mode & stat.S_ISVTX:
        says = f"{data} is a directory that users share: it has the sticky bit, and no node starts on it"
        return Finding("data", "fail", says, "give the node one of its own below it")
    wide = wide_in(data)
    if wide:
        more = "" if len(wide) == 1 else f" and {len(wide) - 1} more in it"
        do = f"chmod -R go= {data}: all that jobs say is in it; the node does so when it starts"
        return Finding("data", "warn", f"{wide[0]}{more} can be used by other users", do)
    return Finding("data", "ok", str(data))


def _cluster_key(file: Path, *, given: bool) -> Iterator[Finding]:
    """Checks the key that the node is started with, or that it made for itself."""
    if not given and not file.exists():
        return
    try:
        names = read_keyring(file).ids()
    except StartupError as error:
        yield Finding("cluster-key", "fail", error.detail, "raftsched keys check FILE; the node does not start with it")
        return
    more = f", accepted too: {', '.join(names[1:])}" if len(names) > 1 else ""
    says = f"{names[0]} is used{more}; raftsched keys check shows the same on the other nodes"
    yield Finding("cluster-key", "ok", says)


def _owner(data: Path) -> Iterator[Finding]:
    if not data.exists():
        return
    owner = data.stat().st_uid
    others: list[Path] = []
    closed: list[OSError] = []  # why what is in a directory is not known
    for path in _made(data, closed):
        try:
            if path.lstat().st_uid != owner:
                others.append(path)
        except FileNotFoundError:  # gone meanwhile
            continue
        except OSError as error:
            closed.append(error)
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        do = f"the node was started as another user once: chown -R {owner} {data}"
        yield Finding("user", "fail", f"{others[0]}{more} belongs to another user than the directory", do)
    elif closed:
        says = f"{closed[0].filename} cannot be looked into: {(closed[0].strerror or '').lower()}"
        yield Finding("user", "warn", says, "run this as the node's user, or as root")
    elif owner == 0:
        do = f"run the node as a user of its own, and give it the directory: chown -R raftsched {data}"
        yield Finding("user", "warn", f"{data} is root's, and so its node and its jobs are", do)
    else:
        yield Finding("user", "ok", f"all of it belongs to the user {owner}")


def _made(data: Path, closed: list[OSError]) -> Iterator[Path]:
    """Gives what a node makes in its directory, and what is in that, one level deep; adds to `closed` why not."""
    for name in MADE:
        path = data / name
        try:
            if not path.exists():
                continue
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from list(path.iterdir())
        except OSError as error:
            closed.append(error)


def _store(data: Path) -> Iterator[Finding]:
    """Checks log and tables. A node that is started meanwhile is refused, and has to be started again."""
    from raftsched.store import examination

    left, directory = unfinished_restore(data), data / "store"
    if left is not None:
        do = "the node does not start with it, for it would begin an empty cluster"
        yield Finding("store", "fail", said_of(left), do)
        return
    if not directory.is_dir():
        yield Finding("in-use", "ok", "there is no store yet: the node's first start makes it")
        return
    try:
        with examination.held(directory):
            yield Finding("in-use", "ok", "no node runs on it")
            yield from _examined(directory, examination.examine(directory))
    except examination.InUse as error:
        who = "a process" if error.pid is None else f"process {error.pid}"
        yield Finding("in-use", "ok", f"{who} has it open: the node runs, and log and tables are left alone")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        do = "run this as the node's user, or as root"
        yield Finding("store", "warn", f"{error.filename or directory} cannot be looked at: {why}", do)


def _examined(directory: Path, found: object) -> Iterator[Finding]:
    from raftsched.store.examination import Examined

    if not isinstance(found, Examined):
        yield Finding("store", "ok", "empty: the node's first start makes it")
    elif found.damaged:
        do = (
            f"{HEALTHY}: move {directory} away, start the node with an empty one, then raftsched cluster members"
            f" replace ID. {ELSE}"
        )
        yield Finding("store", "fail", f"damaged: {found.damaged}", do)
    elif found.unknown:
        do = "start the version that wrote it, or a later one; the directory stays as it is"
        yield Finding("store", "fail", found.unknown, do)
    else:
        says = (
            f"{found.entries:,} entries up to {found.last_index:,}, each with its checksum; term {found.term},"
            f" checkpoint of entry {found.applied_index:,}"
        )
        yield Finding("store", "ok", says)


def _room(place: Path) -> Iterator[Finding]:
    there = os.statvfs(place)
    free = there.f_bavail * there.f_frsize
    if free < DISK_WARN:
        do = f"make room: below {size_text(DISK_FAIL)} a node refuses writes"
        yield Finding("room", "fail" if free < DISK_FAIL else "warn", f"{size_text(free)} free", do)
    elif there.f_files and there.f_favail < INODES:
        yield Finding("room", "warn", f"{there.f_favail:,} inodes free", "remove files: a node needs some hundreds")
    else:
        yield Finding("room", "ok", f"{size_text(free)} free")


def _address_space() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft < 2 * MAP_BYTES:
        do = "ulimit -v unlimited (it is address space, not memory)"
        return Finding("address-space", "fail", f"{size_text(soft)}; the store maps {size_text(MAP_BYTES)}", do)
    return Finding("address-space", "ok", "no limit" if soft == resource.RLIM_INFINITY else size_text(soft))


def _flushes(place: Path) -> Finding:
    """Measures how long a page takes to the disk and be safe there. Every acknowledged write waits for at least two of
    these."""
    from raftsched.system.clock import SystemClock

    clock = SystemClock()
    took = []
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            for _ in range(FLUSHES):
                began = clock.monotonic()
                file.write(_PAGE)
                file.flush()
                os.fdatasync(file.fileno())
                took.append((clock.monotonic() - began) * 1000)
    except OSError as error:
        return Finding(
            "flush", "fail", f"a page cannot be written: {(error.strerror or str(error)).lower()}", "see dmesg"
        )
    middle, most = statistics.median(took), max(took)
    says = f"{middle:.1f} ms for a page and its fdatasync, {most:.1f} ms at most of {FLUSHES}"
    do = "use a faster disk (an SSD with a write cache that keeps its word), or one that others do not load"
    if middle > FLUSH_FAIL_MS:
        return Finding("flush", "fail", says, do)
    return Finding("flush", "warn", says, do) if middle > FLUSH_WARN_MS else Finding("flush", "ok", says)
