"""Connects Celery with a cluster: a beat whose schedule lives there, and a handler that sends tasks.

    celery -A shop beat -S raftsched.celery:Scheduler
    raftsched worker --server ... --handlers raftsched.celery     (the handler celery.send)

The schedule is the application's: a beat makes jobs of its entries, and takes the runs of these jobs when they are due.
docs/celery.md describes both. Celery is imported by what needs it, and not before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raftsched.celery.sending import send as send

if TYPE_CHECKING:
    from raftsched.celery.beat import Scheduler
    from raftsched.celery.database import DatabaseScheduler

_LATE = {"Scheduler": "raftsched.celery.beat", "DatabaseScheduler": "raftsched.celery.database"}

__all__ = ["DatabaseScheduler", "Scheduler", "send"]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
