"""The parts of a run in answers."""

from __future__ import annotations

import msgspec
from msgspec import Raw


class ShardOut(msgspec.Struct):
    index: int
    count: int


class PartResult(msgspec.Struct):
    index: int
    state: str
    result: Raw | None = None
    error: str | None = None


class PartsOut(msgspec.Struct):
    """The parts of a run. `running`, `waiting` and `results`, by index, where the run is read by itself; `results_cut`:
    there are more than are shown."""

    total: int
    succeeded: int
    failed: int
    killed: int
    running: int | None = None
    waiting: int | None = None
    results: list[PartResult] | None = None
    results_cut: bool = False
