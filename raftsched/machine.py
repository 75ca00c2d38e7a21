"""Reads what the machine tells of itself: memory, pressure, clock, time zones, file systems, from Linux' files. What a
system does not tell is None, "unknown" or 0, never an error.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GONE_AT_RESTART = frozenset({"tmpfs", "ramfs", "devtmpfs"})
OF_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "lustre"}
)
ZONE_FILES = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo")
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


def zones() -> str:
    """Returns the version of the time zone data that Python takes, such as "2025b"; "unknown"."""
    for base in ZONE_FILES:
        first = _text(Path(base, "tzdata.zi")).partition("\n")[0]
        if first.startswith("# version "):
            return first.removeprefix("# version ").strip()
    if any(Path(base, "UTC").exists() for base in ZONE_FILES):
        return "unknown"
    try:
        import tzdata  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return "unknown"
    return str(tzdata.IANA_VERSION)


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
