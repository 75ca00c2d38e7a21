"""Rules of what is simulated here, each of which a test may take out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Switches:
    self_kill: bool = True  # keepers kill at the lease's end by themselves
    kill_before_end: bool = True  # and begin while there is time left
    lock: bool = True  # a restarted node waits until nothing of the one before is left
    fence: bool = True  # before a session is opened, what ran under the last one is ended


ALL = Switches()
