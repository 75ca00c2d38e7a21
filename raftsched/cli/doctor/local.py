"""The checks of `doctor` that look at this machine."""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from raftsched.doctor import DISK_FAIL, DISK_WARN, Finding
from raftsched.errors import StartupError
from raftsched.quantities import size_text
from raftsched.security.keyring import KEY_FILE, read_keyring
from raftsched.security.private import wide_in

FILES_FAIL, FILES_WARN = 1_024, 8_192  # descriptors
MAP_BYTES = 64 << 30  # of address space, that the store maps
FLUSHES = 30
FLUSH_WARN_MS, FLUSH_FAIL_MS = 20.0, 250.0
INODES = 10_000
_PAGE = bytes(4096)
_GONE = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_FAR = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "lustre"})


def look_at_machine() -> Iterator[Finding]:
    yield _files()
    yield _zones()
    yield _memory_limits()


def _files() -> Finding:
    """The hard limit: a node raises the soft one to it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    says = "no limit" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    do = f"raise it for the node: ulimit -Hn {FILES_WARN}, or LimitNOFILE={FILES_WARN} in its systemd unit"
    if hard == resource.RLIM_INFINITY or hard >= FILES_WARN:
        return Finding("open files", "ok", says)
    return Finding("open files", "warn" if hard >= FILES_FAIL else "fail", says, do)


def _zones() -> Finding:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    try:
        ZoneInfo("Europe/Madrid")
    except ZoneInfoNotFoundError:
        return Finding(
            "time zones", "fail", "no time zone data", "install tzdata (pip install tzdata, or the system's)"
        )
    return Finding("time zones", "ok", f"{len(available_timezones())} zones, {_zone_version()}")


def _zone_version() -> str:
    for base in ("/usr/share/zoneinfo", "/usr/lib/zoneinfo"):
        try:
            first = Path(base, "tzdata.zi").read_text("utf-8").split("\n", 1)[0]
        except OSError:
            continue
        if first.startswith("# version "):
            return f"the system's, {first.removeprefix('# version ').strip()}"
    try:
        import tzdata  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return "version unknown"
    return f"those of the package tzdata, {tzdata.IANA_VERSION}"


def _memory_limits() -> Finding:
    """Checks the limits of this command's process; a node's may be others."""
    do = (
        "a node that is alone in a control group (systemd: Delegate=yes) limits the memory of whole runs; else a limit"
        " holds for each process of a run"
    )
    try:
        group = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return Finding("control groups", "warn", "this system has no version 2", do)
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            controllers = Path(base, group.lstrip("/"), "cgroup.controllers").read_text().split()
        except OSError:
            continue
        missing = [name for name in ("memory", "pids") if name not in controllers]
        if missing:
            return Finding("control groups", "warn", f"version 2, without {' and '.join(missing)} here", do)
        if not os.access(Path(base, group.lstrip("/")), os.W_OK):
            return Finding("control groups", "warn", "version 2, not delegated to this user", do)
        return Finding("control groups", "ok", "version 2, with memory and pids")
    return Finding("control groups", "warn", "version 2 is not mounted", do)


# ---------------------------------------------------------------- a data directory


def look_at_directory(data: Path) -> Iterator[Finding]:
    place = next((p for p in (data, *data.absolute().parents) if p.is_dir()), Path("/"))
    if data.exists() and not data.is_dir():
        yield Finding("data", "fail", f"{data} is not a directory", "say another one")
        return
    if not os.access(place, os.W_OK | os.X_OK):
        yield Finding(
            "data", "fail", f"{place} is not writable", f"give it to the user that runs the node: chown {place}"
        )
        return
    yield _kept_private(data)
    yield from _owner(data)
    yield from _cluster_key(data)
    yield _file_system(place)
    yield from _room(place)
    yield _address_space()
    yield _flushes(place)


def _kept_private(data: Path) -> Finding:
    if not data.exists():
        return Finding("data", "ok", f"{data} will be made")
    wide = wide_in(data)
    if wide:
        more = "" if len(wide) == 1 else f" and {len(wide) - 1} more in it"
        do = f"chmod -R go= {data}: all that jobs say is in it; the node does so when it starts"
        return Finding("data", "warn", f"{wide[0]}{more} can be used by other users", do)
    return Finding("data", "ok", str(data))


def _cluster_key(data: Path) -> Iterator[Finding]:
    """Checks the key of a node that made its own, or was given it there."""
    if not (data / KEY_FILE).exists():
        return
    try:
        names = read_keyring(data / KEY_FILE).ids()
    except StartupError as error:
        yield Finding("cluster key", "fail", error.detail, "the node does not start with it: docs/secrets.md")
        return
    more = f", accepted too: {', '.join(names[1:])}" if len(names) > 1 else ""
    yield Finding("cluster key", "ok", f"{names[0]} is used{more}")


def _owner(data: Path) -> Iterator[Finding]:
    if data.exists() and data.stat().st_uid == 0:
        do = f"run the node as a user of its own, and give it the directory: chown -R raftsched {data}"
        yield Finding("user", "warn", f"{data} is root's, and so its node and its jobs are", do)


def _file_system(place: Path) -> Finding:
    kind = _kind(place.resolve())
    if kind in _GONE:
        return Finding("file system", "fail", f"{kind}: gone when the machine restarts", "use a directory on a disk")
    if kind in _FAR:
        do = "use a local disk: LMDB maps its file, and locks of a network file system do not hold"
        return Finding("file system", "fail", kind, do)
    if kind == "overlay":
        return Finding("file system", "warn", "overlay: it goes with the container", "mount a volume for the data")
    return Finding("file system", "ok", kind)


def _kind(place: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    best, found = -1, "unknown"
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return found
    for line in lines:
        _, where, kind, *_ = line.split(" ")
        point = where.encode("latin-1", "surrogateescape").decode("unicode_escape").rstrip("/")
        if (str(place) == point or str(place).startswith(f"{point}/")) and len(point) >= best:
            best, found = len(point), kind
    return found


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
        return Finding("address space", "fail", f"{size_text(soft)}; the store maps {size_text(MAP_BYTES)}", do)
    return Finding("address space", "ok", "no limit" if soft == resource.RLIM_INFINITY else size_text(soft))


def _flushes(place: Path) -> Finding:
    """Measures how long a page takes to the disk and be safe there. Every acknowledged write waits for at least two of
    these."""
    from raftsched.clock import SystemClock

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
