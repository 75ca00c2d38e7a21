"""Registers the handlers of a project: `--handlers raftsched.django.found`, in the process that looks for them."""

from __future__ import annotations

from raftsched import handlers
from raftsched.django import modules, processes

processes.set_up()
modules.import_all()
if not handlers.registered:
    raise LookupError(modules.NONE)
