"""Output that travels with the report of its run."""

from __future__ import annotations

import asyncio
import logging

from raftsched.core.model import OutputRef
from raftsched.errors import RaftschedError
from raftsched.remote.protocol import OUTPUT_INLINE_MAX, OutputPlace, Printed
from raftsched.worker.output import OutputStore

log = logging.getLogger(__name__)


class InlineOutputs:
    """See ports.Outputs."""

    def __init__(self, store: OutputStore) -> None:
        self._store = store

    def begin(self, session: str, token: int) -> None:
        pass

    async def finish(self, session: str, token: int, output: OutputRef) -> OutputPlace | str | list[Printed] | None:
        try:
            text = (await asyncio.to_thread(self._store.read, output)).decode("utf-8", "replace")
        except (OSError, RaftschedError) as error:
            log.warning("the output of attempt %d is lost: %s", token, error)
            return None
        return text[-OUTPUT_INLINE_MAX:]

    def forget(self, token: int) -> None:
        pass
