"""The time zone of this machine, as cron would use it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from raftsched.schedule.zones import is_zone


def host_zone(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> str | None:
    """The IANA name from TZ, else the link /etc/localtime, else /etc/timezone; None when none of them tells."""
    candidates = [environ.get("TZ", "").removeprefix(":")]
    try:
        target = os.path.realpath(root / "etc/localtime")
        candidates.append(target.partition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/"))
    except OSError:
        pass
    try:
        candidates.append((root / "etc/timezone").read_text().strip())
    except (OSError, UnicodeDecodeError):
        pass
    for name in candidates:
        if name and is_zone(name):
            return name.removeprefix("Etc/") if name in ("Etc/UTC",) else name
    return None
