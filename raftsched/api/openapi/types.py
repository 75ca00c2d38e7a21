"""Rules that the types of requests and answers cannot express: fields that exclude each other, or need each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raftsched.api.jobs.triggers import BELONGS, KINDS_OF_TRIGGER
from raftsched.surface.bulk import JobFilterIn
from raftsched.surface.dead_letters import DeadFilterIn
from raftsched.surface.specials import NULL, plain, without_null


def refine(name: str, schema: dict[str, Any]) -> None:
    """Adds to the schema of a type what the checks ask beyond it."""
    rule = _RULES.get(name)
    if rule is not None:
        rule(schema)


def _one_of(
    kinds: tuple[str, ...],
    belongs: dict[str, tuple[str, ...]],
    needs: dict[str, str] | None = None,
    always: tuple[str, ...] = (),
) -> Callable[[dict[str, Any]], None]:
    """One way for each kind: what does not belong to it is null or left out. `belongs`: field -> its kinds, else all;
    `needs`: kind -> a field that it needs beside its own; `always`: what all of them need."""

    def rule(schema: dict[str, Any]) -> None:
        ways = []
        for kind in kinds:
            needed = [kind, *always, *([needs[kind]] if needs and kind in needs else [])]
            own = {}
            for field, one in schema["properties"].items():
                if field == kind and one.get("type") == "boolean":
                    own[field] = {"const": True}
                elif field in needed:
                    own[field] = without_null(one)
                elif field in kinds or kind not in belongs.get(field, kinds):
                    own[field] = _unset(one)
                else:
                    own[field] = one
            way: dict[str, Any] = {"title": kind, "type": "object", "properties": own, "required": needed}
            ways.append({**way, "additionalProperties": False})
        kept: dict[str, Any] = {k: v for k, v in schema.items() if k in ("title", "description")}
        schema.clear()
        schema.update({**kept, "oneOf": ways})

    return rule


def _unset(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a value that does as if the field were left out."""
    if NULL in schema.get("anyOf", []):
        return dict(NULL)
    default = schema.get("default")
    # An empty object as a constant is refused by generators of clients.
    return {"type": "object", "maxProperties": 0} if default == {} else {"const": default}


def _said(*fields: str) -> dict[str, Any]:
    """Returns what holds where all of these are there, and none is null."""
    return {"required": list(fields), "properties": {field: {"not": dict(NULL)} for field in fields}}


def _needs(*fields: str) -> Callable[[dict[str, Any]], None]:
    """Makes a rule that requires fields which are checked by hand, because the message says more then, or because PATCH
    leaves them out."""

    def rule(schema: dict[str, Any]) -> None:
        schema["required"] = sorted({*schema.get("required", []), *fields})
        for field in fields:
            one = without_null(schema["properties"][field])
            schema["properties"][field] = plain(one)

    return rule


def _trigger_in(schema: dict[str, Any]) -> None:
    _one_of(KINDS_OF_TRIGGER, BELONGS)(schema)
    _refine_every(schema)


def _trigger_item_in(schema: dict[str, Any]) -> None:
    """One of several has an id, and neither of what belongs to the job."""
    alone = ("manual", "after")
    kinds = tuple(kind for kind in KINDS_OF_TRIGGER if kind not in alone)
    _one_of(kinds, {**BELONGS, **dict.fromkeys(alone, ()), "max_runs": ()}, always=("id",))(schema)
    _refine_every(schema)


def _refine_every(schema: dict[str, Any]) -> None:
    (every,) = (way for way in schema["oneOf"] if way["title"] == "every")
    delayed = {"mode": {"const": "fixed_delay"}, "calendar": {"type": "string"}}
    every["not"] = {"properties": delayed, "required": sorted(delayed)}  # that has no times a calendar could leave out
    schema.update({"if": _said("calendar_action"), "then": _said("calendar")})


def _after_in(schema: dict[str, Any]) -> None:
    _one_of(("job", "all_of", "any_of"), {})(schema)


def _job_in(schema: dict[str, Any]) -> None:
    _needs("handler")(schema)
    _one_or_several(schema)


def _one_or_several(schema: dict[str, Any]) -> None:
    """A trigger, or several and what belongs to all of them."""
    null = dict(NULL)
    one = {"trigger": {"not": null}, "triggers": {"maxItems": 0}, "max_runs": null}
    several = {"trigger": null, "triggers": {"minItems": 1}}
    schema["oneOf"] = [
        {"properties": one, "required": ["trigger"]},
        {"properties": several, "required": ["triggers"]},
    ]


def _pause_in(schema: dict[str, Any]) -> None:
    schema["not"] = _said("until", "for")


def _chosen(filter_type: str, *always: str) -> Callable[[dict[str, Any]], None]:
    """Returns the schema of a choice: by ids, by a filter that says something, or all."""

    def rule(schema: dict[str, Any]) -> None:
        said: dict[str, Any] = {"not": {"enum": [None, [], {}]}}
        properties = schema["properties"]
        of_filter = {"$ref": f"#/components/schemas/{filter_type}"}
        fields = FILTERS[filter_type].__struct_encode_fields__
        something = {"anyOf": [{"required": [name], "properties": {name: said}} for name in fields]}
        properties["filter"] = {"anyOf": [{"allOf": [of_filter, something]}, NULL]}
        _one_of(("ids", "filter", "all"), {}, always=always)(schema)
        if "until" in properties:
            _pause_in(schema)
        if "kill" in schema["oneOf"][0]["properties"]:
            killing = {"properties": {"kill": {"const": True}}, "required": ["kill"]}
            schema.update({"if": killing, "then": {"properties": {"action": {"const": "expire"}}}})

    return rule


def _token_in(schema: dict[str, Any]) -> None:
    _needs("name", "role")(schema)
    admin = {"properties": {"role": {"const": "admin"}}, "required": ["role"]}
    worker = {"properties": {"role": {"const": "worker"}}, "required": ["role"]}
    schema["allOf"] = [
        {"if": admin, "then": {"properties": {"namespaces": dict(NULL)}}},
        {
            "if": worker,
            "then": {"properties": {"grants": {"maxItems": 0}}},
            "else": {"properties": {"queues": dict(NULL)}},
        },
    ]


def _placement_in(schema: dict[str, Any]) -> None:
    schema["not"] = _said("on", "shards")


def _concurrency_in(schema: dict[str, Any]) -> None:
    _needs("key")(schema)
    schema["anyOf"] = [_said("max"), _said("rate")]


def _kill_in(schema: dict[str, Any]) -> None:
    """Refines the filter: a job or a namespace, never everything."""
    _needs("filter")(schema)
    named = {"anyOf": [_said("job"), _said("namespace")]}
    schema["properties"]["filter"] = {"allOf": [{"$ref": "#/components/schemas/KillFilterIn"}, named]}


FILTERS: dict[str, Any] = {"DeadFilterIn": DeadFilterIn, "JobFilterIn": JobFilterIn}
_RULES: dict[str, Callable[[dict[str, Any]], None]] = {
    "TriggerIn": _trigger_in,
    "TriggerItemIn": _trigger_item_in,
    "PauseIn": _pause_in,
    "AfterIn": _after_in,
    "HandlerIn": _one_of(
        ("exec", "shell", "python", "http", "call"),
        {
            **dict.fromkeys(("env", "cwd", "limits"), ("exec", "shell", "python", "call")),
            "fresh": ("python", "call"),
        },
    ),
    "ConditionIn": _one_of(
        ("path", "http", "job_succeeded"),
        {"status": ("http",), "within": ("job_succeeded",)},
        {"job_succeeded": "within"},
    ),
    "RequeueIn": _chosen("DeadFilterIn"),
    "KillIn": _kill_in,
    "ActionsIn": _chosen("JobFilterIn", "action"),
    "JobIn": _job_in,
    "PlacementIn": _placement_in,
    "TokenIn": _token_in,
    "HttpIn": _needs("url"),
    "SecretRef": _needs("$secret"),
    "CrontabIn": _needs("text"),
    "PreviewIn": _one_or_several,
    "BackfillIn": _needs("from"),
    "StateIn": _needs("state"),
    "MemberIn": _needs("id"),
    "RateIn": _needs("count", "per"),
    "ConcurrencyIn": _concurrency_in,
    "RequestRateIn": _needs("count", "per"),
    "NotifyIn": _needs("on", "webhook"),
    "SmtpIn": _needs("host", "from", "to"),
    "RangeIn": _needs("from", "to"),
    "HoursIn": _needs("from", "to"),
    "TimesIn": _needs("from", "to"),
}
