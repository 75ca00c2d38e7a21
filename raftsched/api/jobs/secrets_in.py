"""References to secrets as they are given: {"$secret": "name"} or {"$secret": "namespace/name"}."""

from __future__ import annotations

from typing import Any

from raftsched import names
from raftsched.api.http.problems import FieldError, pointer
from raftsched.core.references import SECRET

RULE = 'write {"$secret": "name"}, or {"$secret": "namespace/name"} for one that is shared'


def check_name(text: str, at: str, errors: list[FieldError]) -> None:
    if not names.SECRET_REFERENCE.allows(text) or len(text) > 200:
        errors.append(FieldError(at, f"names no secret; {RULE}"))


def check_params(params: Any, errors: list[FieldError]) -> None:
    """What looks like a reference is one."""
    waiting = [(params, "/params")]
    while waiting:
        value, at = waiting.pop()
        if isinstance(value, dict):
            if SECRET in value:
                if len(value) > 1 or not isinstance(value[SECRET], str):
                    errors.append(FieldError(at, f"is no reference to a secret; {RULE}, and nothing beside it"))
                else:
                    check_name(value[SECRET], at, errors)
                if at == "/params":
                    errors.append(FieldError(at, "cannot be a secret as a whole; give it as a value of one of them"))
            else:
                waiting += [(item, at + pointer(key[:128])) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(item, f"{at}/{i}") for i, item in enumerate(value)]
