"""All checks of a cluster, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from raftsched.doctor import access, disks, machines, members, work
from raftsched.doctor.checks import Finding
from raftsched.doctor.facts import Facts

_CHECKS: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
    *members.CHECKS,
    *disks.CHECKS,
    *machines.CHECKS,
    *access.CHECKS,
    *work.CHECKS,
)


def examine(facts: Facts) -> Iterator[Finding]:
    """Gives one finding or more for each check; none where there is nothing to look at."""
    for check in _CHECKS:
        yield from check(facts)
