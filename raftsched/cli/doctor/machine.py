"""The checks of `doctor` that look at the machine where it runs."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from raftsched.cli.doctor.guarded import guarded
from raftsched.doctor import Finding
from raftsched.doctor.machines import CLOCKS_DO, judged_files
from raftsched.system import machine


def look_at_machine() -> Iterator[Finding]:
    yield from guarded("open-files", lambda: [_files()])
    yield from guarded("time-zones", lambda: [_zones()])
    yield from guarded("clock-service", _clock)
    yield from guarded("control-groups", lambda: [_memory_limits()])


def _files() -> Finding:
    """The hard limit: a node raises the soft one to it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return Finding("open-files", "ok", "no limit")
    return judged_files(hard)


def _zones() -> Finding:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo("Europe/Madrid")
    except ZoneInfoNotFoundError:
        do = "install tzdata (pip install tzdata, or the system's)"
        return Finding("time-zones", "fail", "no time zone data", do)
    found = machine.zone_files()
    return Finding("time-zones", "ok", f"{len(found.names)} zones, version {found.version}, files {found.digest}")


def _clock() -> Iterator[Finding]:
    kept = machine.clock_synchronised()
    if kept is False:
        says = "nobody keeps the clock of this machine right, as the kernel has heard"
        yield Finding("clock-service", "warn", says, CLOCKS_DO)
    elif kept:
        yield Finding("clock-service", "ok", "a time service does")


def _memory_limits() -> Finding:
    """Checks the limits of this command's process; a node's may be others."""
    do = (
        "a node that is alone in a control group (systemd: Delegate=yes) limits the memory of whole runs; else a limit"
        " holds for each process of a run"
    )
    try:
        group = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return Finding("control-groups", "warn", "this system has no version 2", do)
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            controllers = Path(base, group.lstrip("/"), "cgroup.controllers").read_text().split()
        except OSError:
            continue
        missing = [name for name in ("memory", "pids") if name not in controllers]
        if missing:
            return Finding("control-groups", "warn", f"version 2, without {' and '.join(missing)} here", do)
        if not os.access(Path(base, group.lstrip("/")), os.W_OK):
            return Finding("control-groups", "warn", "version 2, not delegated to this user", do)
        return Finding("control-groups", "ok", "version 2, with memory and pids")
    return Finding("control-groups", "warn", "version 2 is not mounted", do)
