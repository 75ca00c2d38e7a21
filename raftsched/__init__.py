"""raftsched: a job scheduler that is its own cluster."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raftsched.version import __version__ as __version__

if TYPE_CHECKING:
    from raftsched.client.aio import AsyncClient
    from raftsched.client.builders import after, at, cron, every, in_, manual, rrule
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
    from raftsched.client.generated.states import InstanceState, JobState, OperationState, WorkflowState
    from raftsched.client.models import Created
    from raftsched.client.models_generated import Job
    from raftsched.client.spec import Trigger
    from raftsched.client.spec_generated import JobFields, JobSpec
    from raftsched.client.sync.client import Client
    from raftsched.client.tasks import Task, handler, job
    from raftsched.embedded.node import Node, NodeFailed
    from raftsched.embedded.worker import Worker
    from raftsched.errors import StartupError
    from raftsched.handlers import run_variables
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
    "InstanceState": "raftsched.client.generated.states",
    "InvalidError": "raftsched.client.errors",
    "Job": "raftsched.client.models_generated",
    "JobFields": "raftsched.client.spec_generated",
    "JobSpec": "raftsched.client.spec_generated",
    "JobState": "raftsched.client.generated.states",
    "Node": "raftsched.embedded.node",
    "NodeFailed": "raftsched.embedded.node",
    "NotFoundError": "raftsched.client.errors",
    "NotRaftschedError": "raftsched.client.errors",
    "OperationState": "raftsched.client.generated.states",
    "Snooze": "raftsched.run",
    "StartupError": "raftsched.errors",
    "Task": "raftsched.client.tasks",
    "Trigger": "raftsched.client.spec",
    "UnavailableError": "raftsched.client.errors",
    "UnknownOutcomeError": "raftsched.client.errors",
    "Worker": "raftsched.embedded.worker",
    "WorkflowState": "raftsched.client.generated.states",
    "after": "raftsched.client.builders",
    "at": "raftsched.client.builders",
    "cron": "raftsched.client.builders",
    "every": "raftsched.client.builders",
    "handler": "raftsched.client.tasks",
    "in_": "raftsched.client.builders",
    "job": "raftsched.client.tasks",
    "manual": "raftsched.client.builders",
    "progress": "raftsched.run",
    "rrule": "raftsched.client.builders",
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
    "InstanceState",
    "InvalidError",
    "Job",
    "JobFields",
    "JobSpec",
    "JobState",
    "Node",
    "NodeFailed",
    "NotFoundError",
    "NotRaftschedError",
    "OperationState",
    "Snooze",
    "StartupError",
    "Task",
    "Trigger",
    "UnavailableError",
    "UnknownOutcomeError",
    "Worker",
    "WorkflowState",
    "after",
    "at",
    "cron",
    "every",
    "handler",
    "in_",
    "job",
    "manual",
    "progress",
    "rrule",
    "run_variables",
    "save_state",
    "state",
    "trace_context",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
