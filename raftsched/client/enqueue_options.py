"""Typed fields of a job that a function is enqueued as, or is declared as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from raftsched.client.generated.content import After, Handler, Trigger
from raftsched.client.generated.enums import CalendarAction
from raftsched.client.moments import Duration, Moment
from raftsched.client.spec_generated import JobFields


class Creator(Protocol):
    """A Client, an AsyncClient or a Node."""

    @property
    def jobs(self) -> Any: ...


class Options(JobFields, total=False):
    """When a function that is enqueued is due: after `delay`, or `at` a time; else now. `key`: what is enqueued under a
    key that was used before, with the same arguments, is the job of that time; ConflictError with others. `client`: of
    the cluster that is meant. The rest are fields of the job; params, triggers and max_runs are not said here."""

    delay: Duration
    at: Moment
    key: str
    client: Creator


class DeclaredFields(JobFields, total=False):
    """A declared job: when it is due, as one of cron, every, at, rrule, after, manual, trigger and triggers, and what
    belongs to such a trigger; `handler`: environment, limits and so on of the function, without what is called."""

    cron: str
    every: Duration
    at: Moment
    rrule: str
    after: str | Sequence[str] | After
    manual: bool
    trigger: Trigger
    timezone: str
    dialect: Literal["vixie", "quartz"]
    mode: Literal["fixed_rate", "fixed_delay"]
    jitter: Duration
    starts_at: Moment
    ends_at: Moment
    calendar: str
    calendar_action: CalendarAction
    handler: Handler
