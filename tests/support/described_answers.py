"""Answers made from the description of the API: each as full and as wide as the description lets it be."""

from __future__ import annotations

import re
from typing import Any

from tests.support.documented import document
from tests.support.stub_server import Request, problem

JOB = "0d3k5xw2a9f4m"
RUN = "0d3k5xw2a9f4m@1763600400000-e27e0fea21705084"
TIME = "2025-11-20T01:00:00.000Z"
NAME = "n" * 128
_ITEMS = 2
_DEEP = 12
_WORDS = {  # of strings that the description has as any text
    "state": "TIMED_OUT", "last_state": "TIMED_OUT", "outcome": "timed_out", "role": "follower",
    "version": "0.12.3.dev0", "kind": "assigned", "action": "resume", "shut": "paused",
    "every": "1m", "step": "1h", "per": "10m", "cluster": "00" * 16, "store": "00" * 16,
}  # fmt: skip
_TIMES = ("at", "from", "to", "since", "until", "counted_from", "dead_since")


def answer(request: Request) -> tuple[int, Any]:
    """Answers a GET as its description says."""
    path = request.path.partition("?")[0]
    for pattern, methods in document()["paths"].items():
        if "get" in methods and re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", pattern), path):
            content = methods["get"]["responses"]["200"].get("content", {})
            if "application/json" in content:
                return 200, _value(content["application/json"]["schema"], "", "@" if _of_runs(path) else "", 0)
    return problem(404, "not-found", f"No {request.method} {path}.")


def _of_runs(path: str) -> bool:
    return any(part in path for part in ("instances", "workflows", "dead-letters"))


def _value(schema: dict[str, Any], name: str, about: str, depth: int) -> Any:
    while "$ref" in schema:
        schema = _named(schema["$ref"])
    if name == "next":
        return None
    for key in ("anyOf", "oneOf"):
        if key in schema:
            said = [one for one in schema[key] if one.get("type") != "null"]
            return _value(said[0], name, about, depth) if said else None
    if "allOf" in schema:
        return {k: v for one in schema["allOf"] for k, v in _value(one, name, about, depth).items()}
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return max((one for one in schema["enum"] if one is not None), key=lambda one: len(str(one)))
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    if kind == "object" or "properties" in schema:
        if depth > _DEEP:
            return {}
        said = {key: _value(one, key, about, depth + 1) for key, one in schema.get("properties", {}).items()}
        rest = schema.get("additionalProperties")
        if isinstance(rest, dict) and not said:
            said = {"k" * 40: _value(rest, "", about, depth + 1)}
        return said
    if kind == "array":
        return [_value(schema.get("items", {}), "", about, depth + 1) for _ in range(_ITEMS)]
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return 987_654_321
    return _text(schema, name, about) if kind == "string" else {}


def _named(ref: str) -> dict[str, Any]:
    found: Any = document()
    for part in ref.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _text(schema: dict[str, Any], name: str, about: str) -> str:
    if schema.get("format") == "date-time" or name.endswith("_at") or name in _TIMES:
        return TIME
    if name == "id":
        return RUN if about else JOB
    if name in ("job_id", "cause", "root", "parent"):
        return JOB
    return _WORDS.get(name, NAME)
