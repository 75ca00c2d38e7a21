"""Raises the limit of open files of this process. The node takes all that it may have, and gives jobs the limit that it
was started with.

A soft limit of 1,024, as login shells, services and containers have it, is there for programs that call select(2); the
hard limit is what the machine's operator means.
"""

from __future__ import annotations

import resource

MANY = 1 << 20  # where there is no limit
_GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # to this process, when it started


def given() -> int:
    """Returns the soft limit that this process was started with."""
    return _GIVEN


def limit() -> int:
    """Returns the present soft limit."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def raise_limit() -> int:
    """Raises the soft limit to the hard one, and returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _number(hard)
    if limit() < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return limit()


def give_back(soft: int) -> None:
    """Lowers the soft limit to `soft`, for this process and those that it starts; -1: no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft if hard == resource.RLIM_INFINITY else min(_number(soft), hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _number(value: int) -> int:
    return MANY if value == resource.RLIM_INFINITY else value
