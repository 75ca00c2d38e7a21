"""Methods that hide parts of records where these are printed."""

from __future__ import annotations


class WithSecret:
    """A webhook without its secret where it is printed: what is printed lands in logs."""

    __slots__ = ()
    name: str
    url: str | None
    active: bool

    def __repr__(self) -> str:
        return f"Webhook(name={self.name!r}, url={self.url!r}, active={self.active})"
