"""States as query parameters name them: one or more, separated by commas."""

from __future__ import annotations

from raftsched.api.http.requests import Query, bad_parameter
from raftsched.core.model import InstanceState

_INSTANCE = {state.name: state for state in InstanceState}


def instance_states(query: Query) -> frozenset[InstanceState] | None:
    """Those of ?state; None: it was not given. Raises Problem invalid-parameter."""
    text = query.text("state")
    if text is None:
        return None
    names = text.split(",")
    if any(name not in _INSTANCE for name in names):
        raise bad_parameter("state", f"must be one or more of {', '.join(_INSTANCE)}, separated by commas")
    return frozenset(_INSTANCE[name] for name in names)
