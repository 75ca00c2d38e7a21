"""Compares a configuration that was read again with the one in use, by the names of settings, and says which of them a
process takes while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from raftsched.config.flags import NODE, WORKER, taken_by
from raftsched.config.values import ConfigError

# What a process that runs can take.
TAKEN_BY_NODE, TAKEN_BY_WORKER = taken_by(NODE), taken_by(WORKER)


class Changes(NamedTuple):
    """Names of settings, sorted. `taken`: those that are in use from now on; `later`: those that a restart takes."""

    taken: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


def changed(
    before: Mapping[str, Any], after: Mapping[str, Any], build: Callable[[Mapping[str, Any]], object]
) -> tuple[str, ...]:
    """Returns the names of the settings that mean something else now, sorted. `build`: makes a configuration of
    settings. What is only written in another way ("60s" for "1m") has not changed."""
    found = []
    was = build(before)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        trial = {key: value for key, value in before.items() if key != name}
        if name in after:
            trial[name] = after[name]
        try:
            same = build(trial) == was
        except ConfigError:  # it goes with another one
            same = False
        if not same:
            found.append(name)
    return tuple(found)


def changes(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    build: Callable[[Mapping[str, Any]], object],
    taken: frozenset[str],
) -> Changes:
    """Returns what has changed. `taken`: names of what can be taken. Raises ConfigError: the new ones cannot be."""
    build(after)
    names = changed(before, after, build)
    return Changes(tuple(n for n in names if n in taken), tuple(n for n in names if n not in taken))
