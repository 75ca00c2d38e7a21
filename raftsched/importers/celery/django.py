"""django-celery-beat's tables, as `manage.py dumpdata django_celery_beat` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from raftsched.importers.documents import Document
from raftsched.importers.foreign import Unmapped

MODEL = "django_celery_beat."
_KINDS = {
    "intervalschedule": "interval",
    "crontabschedule": "crontab",
    "solarschedule": "solar",
    "clockedschedule": "clocked",
}


@dataclass
class Task:
    """A row of PeriodicTask, with the fields of its schedule; `problem`: why it cannot be used."""

    place: str
    fields: dict[str, Any]
    kind: str = ""  # interval, crontab, solar or clocked
    schedule: dict[str, Any] = field(default_factory=dict)
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)  # what its row, or that of its schedule, has beside fields
    problem: str = ""


def is_dump(documents: list[Document]) -> bool:
    """Returns whether the objects are rows of that application."""
    return any(str(document.value.get("model") or "").lower().startswith(MODEL) for document in documents)


def read_tasks(documents: list[Document]) -> Iterator[Task]:
    """The tasks in their order; rows of other models are left out."""
    schedules: dict[tuple[str, str], dict[str, Any]] = {}
    beside: dict[tuple[str, str], dict[str, Any]] = {}
    tasks: list[Task] = []
    for document in documents:
        model = str(document.value.get("model") or "").lower().removeprefix(MODEL)
        fields = document.value.get("fields")
        if not isinstance(fields, dict):
            continue
        if model in _KINDS:
            key = _KINDS[model], str(document.value.get("pk"))
            schedules[key], beside[key] = fields, _beside(document.value)
        elif model == "periodictask":
            name = str(fields.get("name") or "")
            place = f"task {name}" if name else document.place
            tasks.append(Task(place, fields, beside=_beside(document.value)))
    for task in tasks:
        try:
            _complete(task, schedules)
            task.beside |= beside[task.kind, str(task.fields[task.kind])]
        except Unmapped as error:
            task.problem = str(error)
        yield task


def _beside(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("model", "pk", "fields")}


def _complete(task: Task, schedules: Mapping[tuple[str, str], dict[str, Any]]) -> None:
    given = [kind for kind in _KINDS.values() if task.fields.get(kind) is not None]
    if len(given) != 1:
        raise Unmapped(f"it has {' and '.join(given) or 'no schedule'}; exactly one is expected")
    task.kind = given[0]
    key = task.fields[task.kind]
    found = schedules.get((task.kind, str(key)))
    if found is None:
        raise Unmapped(f"its {task.kind} {str(key)[:40]} is not in this file; dump the whole application")
    task.schedule = found
    args, kwargs = (_json(task.fields.get(name), name) for name in ("args", "kwargs"))
    if not isinstance(args or [], list) or not isinstance(kwargs or {}, dict):
        raise Unmapped("its args are no list, or its kwargs no object")
    task.args, task.kwargs = args or [], kwargs or {}


def _json(value: Any, at: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        raise Unmapped(f"its {at} {value[:60]!r} is no JSON") from None
