"""The clock of tests: `raftsched.system.clock.Clock`, standing still until it is moved."""

from __future__ import annotations

START_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
BOOT_MS = 5_000_000


class ManualClock:
    """`wall` and `boot` are milliseconds; a test may set either. `forward` moves both, as time does."""

    def __init__(self, wall: int = START_MS, boot: int = BOOT_MS) -> None:
        self.wall = wall
        self.boot = boot

    def wall_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.boot / 1000

    def boot_ms(self) -> int:
        return self.boot

    def forward(self, ms: float) -> None:
        self.wall += round(ms)
        self.boot += round(ms)
