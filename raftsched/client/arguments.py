"""Tells the arguments of functions from the options of what is enqueued, and checks both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from raftsched.client.enqueue_options import Options

_SAID_ELSEWHERE = {
    "params": "they are the arguments",
    "triggers": "it is due once; say delay or at",
    "max_runs": "it is due once",
}


def split(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], Options]:
    """Returns the arguments of the function, and the options. A name that is both is the function's parameter."""
    own = {name for name, one in inspect.signature(function).parameters.items() if one.kind is not one.VAR_KEYWORD}
    options = {name: value for name, value in given.items() if name not in own and name in Options.__annotations__}
    return {name: value for name, value in given.items() if name not in options}, cast("Options", options)


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raises TypeError for what is no option, ValueError for what cannot be."""
    unknown = sorted(options.keys() - Options.__annotations__.keys())
    if unknown:
        raise TypeError(f"{name}: {', '.join(unknown)} is no option of what is enqueued, and no field of a job")
    for field, why in _SAID_ELSEWHERE.items():
        if field in options:
            raise TypeError(f"{name}: {field} is not said of what is enqueued: {why}")
    if options.get("delay") is not None and options.get("at") is not None:
        raise ValueError(f"{name}: say delay or at, not both")


def bound(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call by name. Raises TypeError for those that the function does not take, or that have
    no name."""
    try:
        found = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: {error}") from None
    params: dict[str, Any] = {}
    for name, value in found.arguments.items():
        kind = found.signature.parameters[name].kind
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: {name} has to be a parameter that can be given by its name")
        params.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return params


def accepts(function: Callable[..., Any], job: Mapping[str, Any]) -> None:
    """Raises TypeError for params of a declared job that the function does not take. Those of a job without times of
    its own may come when it is run; those that are an object's fields are not looked at."""
    params = job.get("params", {})
    if not isinstance(params, Mapping):
        return
    trigger = job.get("trigger") or {}
    given = {**params, "upstream": {}} if (trigger.get("after") or {}).get("pass") else params
    signature = inspect.signature(function)
    bind = signature.bind_partial if trigger.get("manual") else signature.bind
    try:
        bind(**given)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: {error}") from None
