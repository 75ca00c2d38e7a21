"""Defines the base of all commands. Which there are is in `commands`."""

from __future__ import annotations

import msgspec


class Command(msgspec.Struct, array_like=True, frozen=True):
    """A change that the cluster is asked for: a msgpack array whose first item is the number of the command."""
