"""Reads what the machine tells of itself: memory, pressure, clock, time zones, file systems, from Linux' files. What a
system does not tell is None, "unknown" or 0, never an error.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

try:
    import tzdata  # type: ignore[import-untyped, unused-ignore]
except ImportError:  # the system has the zones
    tzdata = None

PROC = Path("/proc")
GONE_AT_RESTART = frozenset({"tmpfs", "ramfs", "devtmpfs"})
OF_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "lustre"}
)
_ZONE = b"TZif"  # what the file of a zone begins with
_whole = re.compile(rb"\n[ -~]*\n\Z").search  # its end from version 2 on (RFC 9636); Python reads without end for it
_is_version = re.compile(r"[ -~]{1,32}").fullmatch
_NO_ZONES = frozenset({"posix", "right", "posixrules", "localtime", "Factory", "__pycache__"})
_DIGEST = 12  # characters
_TIMEX_BYTES = 512  # struct timex has 208 on 64 bits (adjtimex(2)); modes 0, its first field, changes nothing
_UNSYNCHRONISED = 5  # TIME_ERROR


@dataclass(frozen=True)
class Memory:
    """Bytes: of the machine or of this process's control group, whichever has less; and of this process those that
    were swapped out."""

    total: int
    available: int
    swapped: int


def memory(proc: Path = PROC, groups: Path = Path("/sys/fs/cgroup")) -> Memory | None:
    """Returns the memory that this process may have. None: the system does not say."""
    machine = _kilobytes(proc / "meminfo")
    total, available = machine.get("MemTotal", 0), machine.get("MemAvailable", 0)
    if not total:
        return None
    swapped = _kilobytes(proc / "self" / "status").get("VmSwap", 0)
    group = groups / own_group(proc).lstrip("/")
    most, used = _number(group / "memory.max"), _number(group / "memory.current")
    if most is not None and used is not None and most < total:
        cached = _pairs(group / "memory.stat").get("inactive_file", 0)  # which is given back before anything fails
        total, available = most, min(available, max(0, most - used + cached))
    return Memory(total, available, swapped)


def stalled(proc: Path = PROC) -> float | None:
    """Returns the share of the last minute in which something waited for memory (Linux: Documentation/accounting/
    psi.rst). None: the kernel does not measure it."""
    for line in _text(proc / "pressure" / "memory").splitlines():
        fields = dict(field.partition("=")[::2] for field in line.split()[1:])
        if line.startswith("some ") and "avg60" in fields:
            return float(fields["avg60"]) / 100
    return None


def own_group(proc: Path = PROC) -> str:
    """Returns this process's control group (version 2), "/" where there is none."""
    return next((line[3:] for line in _text(proc / "self" / "cgroup").splitlines() if line.startswith("0::")), "/")


def clock_synchronised() -> bool | None:
    """Returns whether a time service keeps the clock right, as the kernel has heard. None: it may not be asked."""
    try:
        state: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONISED


@dataclass(frozen=True)
class ZoneFiles:
    """The time zone data that Python takes: a version such as "2025b", or "unknown"; a digest of what the files of all
    zones hold, and the names of the zones. Two versions never have one digest; two builds of one version may differ in
    it."""

    version: str
    digest: str
    names: tuple[str, ...]
    held: tuple[zoneinfo.ZoneInfo, ...] = ()  # as long as these are there, Python reads no file of theirs again

    @property
    def name(self) -> str:
        """Version and digest: what it is known by in a cluster."""
        return f"{self.version} {self.digest}"


@cache
def zone_files() -> ZoneFiles:
    """Returns the time zone data as it was when this was first asked. All zones are read then: those that are named
    first after the files were replaced would be of other data than the rest, and than this."""
    found = read_zones(tuple(zoneinfo.TZPATH))
    held = {}
    for name in found.names:
        with suppress(Exception):  # whatever a damaged file leads to; who asks for the zone is told
            held[name] = zoneinfo.ZoneInfo(name)
    return replace(found, names=tuple(held), held=tuple(held.values()))


def read_zones(places: tuple[str, ...]) -> ZoneFiles:
    """Returns the time zone data of these directories, each zone from the first that has it, the others from the
    package tzdata, as Python looks for them."""
    package = _package()
    files: dict[str, Path] = {}
    for place in (*map(Path, places), *([] if package is None else [package])):
        for name, file in _files_of(place):
            files.setdefault(name, file)
    found = hashlib.sha256()
    names = []
    for name, file in sorted(files.items()):
        content = _bytes(file)
        if content.startswith(_ZONE) and (content[4:5] == b"\0" or _whole(content)):
            names.append(name)
            found.update(f"{name}\0{len(content)}\0".encode() + content)
    return ZoneFiles(_version(places), found.hexdigest()[:_DIGEST], tuple(names))


def _version(places: tuple[str, ...]) -> str:
    """Returns the version of the first of these that has zones, else of the package."""
    for place in map(Path, places):
        first = _text(place / "tzdata.zi").partition("\n")[0]
        if first.startswith("# version "):
            version = first.removeprefix("# version ").strip()
            return version if _is_version(version) else "unknown"
        if (place / "UTC").exists():
            return "unknown"
    return "unknown" if _package() is None else str(tzdata.IANA_VERSION)


def _package() -> Path | None:
    """Returns where the zones of the package tzdata are."""
    return None if tzdata is None else Path(tzdata.__path__[0], "zoneinfo")


def _files_of(place: Path, prefix: str = "") -> Iterator[tuple[str, Path]]:
    """Yields the files of a directory of zones, by the zones' names: not those that are other readings of the same, or
    the machine's own zone."""
    try:
        entries = sorted(os.scandir(place), key=lambda one: one.name)
    except OSError:
        return
    for entry in entries:
        if entry.name in _NO_ZONES or "." in entry.name:
            continue
        if entry.is_dir():
            yield from _files_of(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, Path(entry.path)


def file_system(place: Path, proc: Path = PROC) -> str:
    """Returns the kind of the file system that a directory is on, such as "ext4"; "unknown"."""
    best, found = -1, "unknown"
    for line in _text(proc / "self" / "mounts").splitlines():
        _, where, kind, *_ = line.split(" ")
        point = where.encode("latin-1", "surrogateescape").decode("unicode_escape").rstrip("/")
        if (str(place) == point or str(place).startswith(f"{point}/")) and len(point) >= best:
            best, found = len(point), kind
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None


def _pairs(file: Path) -> dict[str, int]:
    found = (line.split() for line in _text(file).splitlines())
    return {fields[0]: int(fields[1]) for fields in found if len(fields) == 2 and fields[1].isdigit()}


def _kilobytes(file: Path) -> dict[str, int]:
    """Returns the sizes of a file with lines such as "MemTotal: 16 kB", in bytes."""
    found = (line.split() for line in _text(file).splitlines())
    return {f[0].rstrip(":"): int(f[1]) << 10 for f in found if len(f) == 3 and f[2] == "kB" and f[1].isdigit()}
