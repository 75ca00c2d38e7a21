"""An operation on many jobs, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.client.generated.bulk import Operation
from raftsched.client.sync.bridge import Bridge


class Underway:
    """An operation that was accepted. It goes on by itself, whether it is watched or not.

    done = client.jobs.act("pause", owner="ana").wait()         # to its end
    for seen in client.jobs.act("delete", owner="ana"):         # with its progress
        print(seen.examined, seen.total)
    """

    def __init__(self, bridge: Bridge, operation: Operation) -> None:
        self.operation = operation  # as it was seen last
        self._bridge = bridge

    @property
    def id(self) -> str:
        return self.operation.id

    def __iter__(self) -> Iterator[Operation]:
        for seen in self._bridge.each(lambda c: c.operations.follow(self.operation)):
            self.operation = seen
            yield seen

    def wait(self, *, timeout: float | None = None) -> Operation:
        """To its end. `timeout` in seconds; TimeoutError after that, and the operation goes on."""
        self.operation = self._bridge.run(lambda c: c.operations.wait(self.operation, timeout=timeout))
        return self.operation

    def cancel(self) -> Operation:
        """It makes no more steps; what was done stays."""
        self.operation = self._bridge.run(lambda c: c.operations.cancel(self.operation))
        return self.operation
