"""docs/events.md names every type, and the limits that it gives are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from raftsched.api.http.requests import MIN_INDEX_WAIT_S
from raftsched.api.http.streams import HEARTBEAT_S, STALLED_S
from raftsched.api.runs.changes import EVERY_S, LOOK_S
from raftsched.api.runs.digests import EVENTS_MAX, KINDS, ROWS_MAX
from raftsched.bounds import HOUR_MS
from raftsched.cluster_settings import Settings
from raftsched.config.bounds import Bounds
from raftsched.surface.events import TYPES

PAGE = (Path(__file__).parents[3] / "docs" / "events.md").read_text()
TEXT = " ".join(PAGE.split())


def test_every_type() -> None:
    table = PAGE.partition("## Types")[2].partition("## Parameters")[0]
    named = re.findall(r"`((?:[a-z]+)?\.[a-z_]+)`", table)
    full = {f"instance{name}" if name.startswith(".") else name for name in named}
    assert full == set(TYPES)


def test_the_limits() -> None:
    settings = Settings()
    assert f"`events_max` events are kept ({settings.events_max:,})" in TEXT
    assert settings.events_keep_ms == HOUR_MS
    assert "`events_keep` (1 h)" in TEXT
    assert f"A node serves {Bounds().streams} streams" in TEXT
    assert f"takes nothing for {STALLED_S:g} s" in TEXT
    assert f"when nothing was sent for {HEARTBEAT_S:g} s" in TEXT.replace("\n  ", " ")
    assert f"waits {MIN_INDEX_WAIT_S:g} s for it" in TEXT


def test_what_digests_tell_and_cost() -> None:
    assert EVERY_S == 1 / 4
    assert "says four times a second at most" in TEXT
    assert LOOK_S + EVERY_S < 1
    assert f"of the first {EVENTS_MAX} events and {ROWS_MAX} more rows" in TEXT
    bounds = Bounds()
    assert f"{bounds.token_streams} by one token, {bounds.address_streams} from one address" in TEXT
    assert ", ".join(f"`{kind}`" for kind in KINDS) in TEXT
