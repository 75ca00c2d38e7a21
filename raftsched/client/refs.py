"""The ways in which a caller means a thing: by its id, its name, or by what was answered before of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from raftsched.client.generated.bulk import Operation
from raftsched.client.generated.job_actions import Run
from raftsched.client.generated.runs import Instance
from raftsched.client.generated.workflows import Workflow
from raftsched.client.models import Created
from raftsched.client.models_generated import Job
from raftsched.client.wire import at, condition
from raftsched.surface.plain import jobs

JobRef = str | Job | Created
JobVersion = Job | Created | int  # a job as it was answered; or, of one that is meant by its id, its revision
OperationRef = str | Operation
InstanceRef = str | Instance | Run
WorkflowRef = InstanceRef | Workflow


class HasId(Protocol):
    @property
    def id(self) -> str: ...


def id_of(ref: str | HasId) -> str:
    return ref if isinstance(ref, str) else ref.id


def job_path(ref: JobRef, address: str = jobs.GET) -> str:
    """Returns the address of a job, or of what is below it. ValueError for what is neither id nor namespace/name."""
    text = id_of(ref)
    namespace, slash, name = text.partition("/")
    if not slash and text and text not in (".", ".."):  # which would lead elsewhere
        return at(address, id=text)
    if not namespace or not name or "/" in name or {namespace, name} & {".", ".."}:
        raise ValueError(f'{text!r} names no job; give its id, or "namespace/name" such as "default/nightly"')
    return at(address.replace(jobs.GET, jobs.GET_BY_NAME, 1), ns=namespace, name=name)


def job_condition(version: JobVersion | None) -> Mapping[str, str]:
    """Returns the headers that let a change happen only to this version of a job; None: to any."""
    if version is None or isinstance(version, int):
        return condition(version)
    return condition(f"{version.id}.{version.revision}")
