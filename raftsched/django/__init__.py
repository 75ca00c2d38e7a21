"""Brings raftsched into a Django project: INSTALLED_APPS += ["raftsched.django"], and a dict RAFTSCHED (conf.py).

    from raftsched.django import handler, job

    @handler("send-invoice")
    def send_invoice(number: int) -> None: ...

    send_invoice.enqueue_on_commit(7)

It stands on the SDK and on the command line, and adds what a Django project needs beside them: one place for the
address of the cluster, `manage.py raftsched ...` (management/), functions that find Django set up and leave no old
connection behind (decorators.py, processes.py), the end of a transaction, a list in the admin, a health check, tests.

Django is not among what raftsched needs: nothing else in the package imports this room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import django as _django  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "django":
        raise
    raise ModuleNotFoundError("raftsched.django needs Django: pip install django", name="django") from None

if TYPE_CHECKING:
    from raftsched.django.decorators import DjangoTask, client, handler, job

_PUBLIC = ("DjangoTask", "client", "handler", "job")

__all__ = ["DjangoTask", "client", "handler", "job"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("raftsched.django.decorators"), name)
