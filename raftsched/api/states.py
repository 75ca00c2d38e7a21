"""States as query parameters name them, for OpenAPI: one or more, separated by commas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raftsched.core.model import InstanceState, JobState
from raftsched.core.operations import OperationState


def several(names: Iterable[str]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(names)}, "minItems": 1}


JOB_STATES = several(s.name for s in JobState if s is not JobState.DELETED)
OPERATION_STATE = {"type": "string", "enum": [s.name for s in OperationState]}
INSTANCE_STATES = several(s.name for s in InstanceState)
