"""docs/guarantees.md: its numbers are those of the code, and what it points at is there."""

from __future__ import annotations

import re
from pathlib import Path

from raftsched.cluster_settings import Settings
from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.leader.liveness.leases import Leases
from raftsched.leader.pacing import BATCH
from raftsched.surface.worker_sessions import WorkerSessionOut
from raftsched.worker.session.lease_holder import HEARTBEAT_MS, START_SLACK_MS
from tests.support.memory_view import World

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
TEXT = " ".join(PAGE.split())


def test_the_times_of_the_table() -> None:
    said = {name: int(ms) for name, ms in re.findall(r"^\| `(\w)` \|.*\| (\d+) \|$", PAGE, re.MULTILINE)}
    settings = Settings()
    world = World()
    world.session("n2")
    (session,) = world.sessions()
    leases = Leases([session], 0)
    ttl = settings.session_ttl_ms
    margin = leases._leases[session.id].margin_ms
    assert said == {"T": ttl, "m": margin, "K": KILL_BEFORE_MS, "h": HEARTBEAT_MS, "g": START_SLACK_MS}
    rate = 0.1
    assert margin >= 2 * rate * ttl / (1 - rate)
    assert f"({(ttl + margin) / 1000} s)" in TEXT


def test_the_settings_that_it_names() -> None:
    settings = Settings()
    assert f"`catch_up_max` ({settings.catch_up_max})" in TEXT
    assert f"`clock_limit_ms` (a setting, {settings.clock_limit_ms} ms)" in TEXT
    assert f"`steps_kept` ({settings.steps_kept})" in TEXT
    assert f"no entry of the log makes more than {BATCH} of them" in TEXT
    assert f"`worker_ttl`, {settings.worker_ttl_ms // 1000} s" in TEXT
    for name in set(re.findall(r"`(\w+_ms)`", PAGE)) - set(WorkerSessionOut.__struct_fields__):
        assert hasattr(settings, name), name


def test_what_it_points_at_is_there() -> None:
    for name in re.findall(r"`((?:scripts|tests)/[\w/.]+)", PAGE):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"\]\(([\w./]+)\)", PAGE):
        assert (ROOT / "docs" / name).exists(), name
