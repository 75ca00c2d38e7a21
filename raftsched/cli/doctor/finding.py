"""The result of one check of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]
DISK_FAIL = 64 << 20  # bytes: a node refuses writes below this
DISK_WARN = 1 << 30


@dataclass(frozen=True)
class Finding:
    """A state of the cluster or this machine, and what to do about it."""

    check: str
    state: State
    detail: str
    do: str = ""  # empty when all is well
