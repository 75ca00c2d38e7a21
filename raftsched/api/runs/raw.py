"""Stored JSON in an answer, as it is."""

from __future__ import annotations

import msgspec


def shown_raw(value: bytes | None) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(value)
