"""Makes plain values of jobs and triggers of APScheduler, which `raftsched.importers.apscheduler` reads."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from apscheduler.util import ref_to_obj

NOT_YET = object()  # the next time of a job whose scheduler was not started: nobody has computed it
_UNITS = ("years", "months", "weeks", "days")
_CLOCK = ("hour", "minute", "second")


def described_job(
    state: Mapping[str, Any], main: str | None = None, function: Callable[..., Any] | None = None
) -> dict[str, Any]:
    """A job's state, as `Job.__getstate__` gives it, as values of JSON. What cannot be one is said in `problem`.
    `main`: the module in which functions of the main script are found. `function`: what the job calls, where that is
    known."""
    args, kwargs = list(state["args"]), dict(state["kwargs"])
    found: dict[str, Any] = {
        "id": state["id"],
        "name": state["name"],
        "func": _reference(state["func"], main),
        "args": args,
        "kwargs": kwargs,
        "executor": state["executor"],
        "misfire_grace_time": state["misfire_grace_time"],
        "coalesce": state["coalesce"],
        "max_instances": state["max_instances"],
    }
    if state["next_run_time"] is not NOT_YET:
        found["next_run_time"] = _moment(state["next_run_time"])
    for name, value in (("args", args), ("kwargs", kwargs)):
        why = _unsaid(value)
        if why is not None:
            found[name] = type(value)()
            found["problem"] = f"its {name} {why}; jobs here take values of JSON"
    if "problem" not in found and args:
        params = _by_name(function or _function(found["func"]), args, kwargs)
        if params is not None:
            del found["args"], found["kwargs"]
            found["params"] = params
    found["trigger"] = described_trigger(state["trigger"])
    return found


def described_trigger(trigger: Any) -> dict[str, Any]:
    """A trigger as values of JSON. Of one that is not APScheduler's own only its class is said."""
    kind = type(trigger)
    if kind is DateTrigger:
        return {"type": "date", "run_date": _moment(trigger.run_date)}
    if kind is IntervalTrigger:
        return {"type": "interval", "seconds": trigger.interval.total_seconds(), **_span(trigger)}
    if kind is CronTrigger:
        return {"type": "cron", "fields": {field.name: str(field) for field in trigger.fields}, **_span(trigger)}
    if kind is CalendarIntervalTrigger:
        units = {name: getattr(trigger, name) for name in _UNITS}
        clock = dict(zip(_CLOCK, trigger.__getstate__()["time"], strict=True))
        return {"type": "calendarinterval", **units, **clock, **_span(trigger)}
    if kind in (AndTrigger, OrTrigger):
        parts = [described_trigger(one) for one in trigger.triggers]
        return {"type": "and" if kind is AndTrigger else "or", "triggers": parts, "jitter": trigger.jitter}
    return {"type": f"{kind.__module__}:{kind.__qualname__}"}


def _span(trigger: Any) -> dict[str, Any]:
    return {
        "start_date": _moment(trigger.start_date),
        "end_date": _moment(trigger.end_date),
        "timezone": str(trigger.timezone),  # a name of the IANA, or UTC+02:00
        "jitter": trigger.jitter,
    }


def _moment(value: date | None) -> str | None:
    return None if value is None else value.isoformat()


def _reference(text: str, main: str | None) -> str:
    module, colon, function = text.partition(":")
    return f"{main}{colon}{function}" if main and module == "__main__" else text


def _function(reference: str) -> Callable[..., Any] | None:
    """Returns what a reference names; None where it cannot be imported here."""
    try:
        found = ref_to_obj(reference)
    except (Exception, SystemExit):  # importing runs the program's code, and that may fail in any way, and end
        return None
    return found if callable(found) else None


def _by_name(function: Callable[..., Any] | None, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """All arguments by their names; None where some have none, or nobody knows."""
    if function is None:
        return None
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            return None
        found |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return found


def _unsaid(value: Any) -> str | None:
    """Why a value is not the same after JSON; None: it is."""
    try:
        again = json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        return f"are no values of JSON ({str(error)[:120]})"
    return None if again == _lists(value) else "are others after JSON, which has text for keys"


def _lists(value: Any) -> Any:
    """The value with lists in place of tuples, which JSON does not tell apart."""
    if isinstance(value, list | tuple):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value
