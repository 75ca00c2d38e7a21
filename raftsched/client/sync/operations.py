"""Made from client/operations.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.client.generated.bulk import Operation
from raftsched.client.generated.enums import OperationState
from raftsched.client.refs import OperationRef
from raftsched.client.sync.bridge import Bridge


class Operations:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def wait(self, ref: OperationRef, *, timeout: float | None = None) -> Operation:
        """Until it is at its end, done or cancelled. `timeout` in seconds; TimeoutError after that, and the operation
        goes on."""
        return self._bridge.run(lambda c: c.operations.wait(ref, timeout=timeout))

    def follow(self, ref: OperationRef) -> Iterator[Operation]:
        """As it is now, and then whenever it got further; the last one is at its end."""
        return self._bridge.each(lambda c: c.operations.follow(ref))

    def get(self, ref: OperationRef) -> Operation:
        """Read an operation. NotFoundError when it is not kept any more."""
        return self._bridge.run(lambda c: c.operations.get(ref))

    def cancel(self, ref: OperationRef) -> Operation:
        """It makes no more steps; what was done stays. A repeat changes nothing; ConflictError when it has ended."""
        return self._bridge.run(lambda c: c.operations.cancel(ref))

    def list(self, *, state: OperationState | None = None, most: int | None = None) -> Iterator[Operation]:
        """The newest first; `most` of them (None: all that are kept)."""
        return self._bridge.each(lambda c: c.operations.list(state=state, most=most))
