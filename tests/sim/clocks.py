"""The clocks of one machine: the wall clock is off, drifts and jumps; the others only drift, and never go back."""

from __future__ import annotations

from tests.sim.loop import Scheduler

EPOCH_MS = 1_790_000_000_000


class MachineClock:
    """raftsched.system.clock.Clock on virtual time."""

    def __init__(
        self, scheduler: Scheduler, boot_s: float, rate: float, wall_offset_ms: int, wall_rate: float | None = None
    ) -> None:
        """`wall_rate`: None, the wall clock goes as the others."""
        self.wall_offset_ms = wall_offset_ms
        self._scheduler = scheduler
        self._boot_s = boot_s  # how long the machine had been up when the world began
        self._slept_s = 0.0
        self._wall_rate = rate if wall_rate is None else wall_rate
        self._rate = rate  # its seconds per second

    def wall_ms(self) -> int:
        return EPOCH_MS + self.wall_offset_ms + int(self._scheduler.now * self._wall_rate * 1000)

    def monotonic(self) -> float:
        return self._boot_s + self._scheduler.now * self._rate - self._slept_s

    def boot_ms(self) -> int:
        return int((self._boot_s + self._scheduler.now * self._rate) * 1000)

    def seconds(self, seconds: float) -> float:
        """How long that many seconds of this machine's own really are."""
        return seconds / self._rate

    def slept(self, seconds: float) -> None:
        """The machine was suspended for so long, until now: only the boot clock went on."""
        self._slept_s += seconds * self._rate

    def reboot(self, up_s: float) -> None:
        """The machine was off; it counts from its start again."""
        self._slept_s = 0.0
        self._boot_s = up_s - self._scheduler.now * self._rate
