"""Made from surface/dead_letters.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from raftsched.client.generated.runs import Instance
from raftsched.client.moments import Moment


class DeadLetter(Instance, frozen=True, kw_only=True):
    """An instance, and since when it is a dead letter."""

    dead_since: datetime


# `from` and `to` are about the time since which it is a dead letter; `to` is not included.
DeadFilter = TypedDict(
    "DeadFilter",
    {
        "job": str,
        "namespace": str,
        "name_prefix": str,
        "from": Moment,
        "to": Moment,
    },
    total=False,
)
