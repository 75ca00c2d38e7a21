"""Methods that records of the client have beside their fields."""

from __future__ import annotations


class Ending:
    """Something that is done step by step, until it is at its end."""

    __slots__ = ()
    state: str

    @property
    def final(self) -> bool:
        return self.state != "RUNNING"
