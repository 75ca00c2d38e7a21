"""What holds between a run and its parts."""

from __future__ import annotations

from collections import Counter, defaultdict

from raftsched.core.model import FINAL, Instance, PartsTask
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import ReadView


def parts_violations(view: ReadView, rows: dict[bytes, Instance], found: list[str]) -> None:
    """Adds what does not hold to `found`: a parent counts its parts, runs while one of them is not at its end, ends
    when all are, and takes them along."""
    children: dict[bytes, dict[int, Instance]] = defaultdict(dict)
    for key, row in rows.items():
        if row.parent is None:
            continue
        what = f"part {key.hex()} ({row.state.name})"
        parent = rows.get(row.parent)
        if parent is None or parent.parts is None or parent.parts.key(parent, row.shard_index) != key:
            found.append(f"{what} is no part of {row.parent.hex()}")
            continue
        children[row.parent][row.shard_index] = row
        if row.parts is not None or row.held or row.checking or row.dead_letter or row.purge_at_ms is not None:
            found.append(f"{what} is held, looked at, kept or split by itself")
        if row.shard_count not in (0, parent.parts.total) or (row.shard_count == 0) != bool(row.only_on):
            found.append(f"{what} is one of {row.shard_count}, for {row.only_on!r}; there are {parent.parts.total}")
        if row.state not in FINAL and parent.state is not I.RUNNING:
            found.append(f"{what} goes on, and its parent is {parent.state.name}")
    for key, row in rows.items():
        if row.parts is not None:
            _parent(key, row, children.get(key, {}), found)


def _parent(key: bytes, row: Instance, there: dict[int, Instance], found: list[str]) -> None:
    parts = row.parts
    assert parts is not None
    what = f"parent {key.hex()} ({row.state.name})"
    states = Counter(part.state for part in there.values())
    wanted = (states[I.SUCCEEDED], states[I.FAILED] + states[I.TIMED_OUT], states[I.KILLED])
    if (parts.succeeded, parts.failed, parts.killed) != wanted or sorted(there) != list(range(parts.made)):
        found.append(f"{what} counts {parts}; there are {wanted} of {sorted(there)}")
    if parts.made > parts.total or (parts.targets and parts.made == parts.total and parts.task is PartsTask.NONE):
        found.append(f"{what} has {parts}")
    if row.live is not None:
        found.append(f"{what} runs itself")
    if row.state is not I.RUNNING:
        if parts.task is not PartsTask.NONE:
            found.append(f"{what} has something to be done: {parts.task.name}")
        if row.state is I.SUCCEEDED and parts.succeeded < parts.made:
            found.append(f"{what} has parts that did not succeed: {parts}")
        return
    if (row.wake_at_ms is None) != (parts.task is PartsTask.NONE):
        found.append(f"{what} is woken at {row.wake_at_ms}, for {parts.task.name}")
    if parts.task is not PartsTask.MAKE and parts.ended == parts.made:
        found.append(f"{what} goes on, and all of its parts are at their end")
    if parts.task is PartsTask.NONE and parts.made < parts.total and not row.kill_asked:
        found.append(f"{what} has {parts.made} parts of {parts.total}, and makes no more")
