"""raftsched: a job scheduler that is its own cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raftsched.version import __version__ as __version__

if TYPE_CHECKING:
    from raftsched.client.aio import AsyncClient
    from raftsched.client.errors import (
        AuthError,
        ClientError,
        ConflictError,
        InvalidError,
        NotFoundError,
        NotRaftschedError,
        UnavailableError,
        UnknownOutcomeError,
    )
    from raftsched.client.generated.runs import Instance
    from raftsched.client.models import Created
    from raftsched.client.models_generated import Job
    from raftsched.client.spec_generated import JobSpec
    from raftsched.client.sync.client import Client
    from raftsched.embedded.node import Node, NodeFailed
    from raftsched.embedded.worker import Worker
    from raftsched.handlers import handler, run_variables
    from raftsched.run import Cancel, Fail, Snooze, progress, save_state, state, trace_context

# Loaded when they are asked for: the command line starts without them.
_PUBLIC = {
    "AsyncClient": "raftsched.client.aio",
    "AuthError": "raftsched.client.errors",
    "Cancel": "raftsched.run",
    "Client": "raftsched.client.sync.client",
    "ClientError": "raftsched.client.errors",
    "ConflictError": "raftsched.client.errors",
    "Created": "raftsched.client.models",
    "Fail": "raftsched.run",
    "Instance": "raftsched.client.generated.runs",
    "InvalidError": "raftsched.client.errors",
    "Job": "raftsched.client.models_generated",
    "JobSpec": "raftsched.client.spec_generated",
    "Node": "raftsched.embedded.node",
    "NodeFailed": "raftsched.embedded.node",
    "NotFoundError": "raftsched.client.errors",
    "NotRaftschedError": "raftsched.client.errors",
    "Snooze": "raftsched.run",
    "UnavailableError": "raftsched.client.errors",
    "UnknownOutcomeError": "raftsched.client.errors",
    "Worker": "raftsched.embedded.worker",
    "handler": "raftsched.handlers",
    "progress": "raftsched.run",
    "run_variables": "raftsched.handlers",
    "save_state": "raftsched.run",
    "state": "raftsched.run",
    "trace_context": "raftsched.run",
}

__all__ = [
    "AsyncClient",
    "AuthError",
    "Cancel",
    "Client",
    "ClientError",
    "ConflictError",
    "Created",
    "Fail",
    "Instance",
    "InvalidError",
    "Job",
    "JobSpec",
    "Node",
    "NodeFailed",
    "NotFoundError",
    "NotRaftschedError",
    "Snooze",
    "UnavailableError",
    "UnknownOutcomeError",
    "Worker",
    "handler",
    "progress",
    "run_variables",
    "save_state",
    "state",
    "trace_context",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
