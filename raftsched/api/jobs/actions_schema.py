"""The bodies of actions on one job."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import field

from raftsched.api.jobs.schema import Duration, Priority, Time


class RunIn(msgspec.Struct, forbid_unknown_fields=True):
    params: dict[str, Any] | None = None
    priority: Priority | None = None


class ExpireIn(msgspec.Struct, forbid_unknown_fields=True):
    kill: bool = False


class SkipNextIn(msgspec.Struct, forbid_unknown_fields=True):
    """`at`: the nominal time that is meant; without it the next one, whichever that is."""

    at: Time | None = None


class BackfillIn(msgspec.Struct, forbid_unknown_fields=True):
    """Nominal times from `from` on, to before `to` (now, unless given)."""

    from_: Time | None = field(default=None, name="from")
    to: Time | None = None
    dry_run: bool = False


class StateIn(msgspec.Struct, forbid_unknown_fields=True):
    state: Literal["SCHEDULED", "SUSPENDED"] | None = None


class PauseIn(msgspec.Struct, forbid_unknown_fields=True):
    """Until when, or for how long; not both. With neither it lasts until somebody resumes the job."""

    until: Time | None = None
    for_: Duration | None = field(default=None, name="for")
