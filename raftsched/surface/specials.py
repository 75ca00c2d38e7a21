"""Schemas that are made of those of other types, for answers and bodies that no one type describes."""

from __future__ import annotations

from typing import Any

from raftsched.errors import MEANINGS
from raftsched.surface.operation import Special

NULL = {"type": "null"}


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of what has no default: it has to be there, or is left as it was where it is left out."""
    return {name: one for name, one in schema.items() if name != "default"}


def part_of(whole: dict[str, Any], title: str) -> dict[str, Any]:
    """Returns the schema of what ?fields leaves of an item of a list."""
    said = {"title": title, "description": "The fields that `fields` names.", "required": []}
    return {**whole, **said, "additionalProperties": False}


def partial(title: str, model: Any) -> Special:
    """Returns the schema of some fields of a type."""
    return Special(title, (model,), lambda schemas: part_of(schemas[model.__name__], title))


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    rest = [one for one in schema.get("anyOf", []) if one != NULL]
    return rest[0] if len(rest) == 1 else schema


def patch_of(title: str, model: Any) -> Special:
    """Returns the schema of a change (RFC 7396); null: the default."""

    def make(schemas: dict[str, Any]) -> dict[str, Any]:
        whole = schemas[model.__name__]
        given = {name: plain(one) for name, one in whole["properties"].items()}
        properties = {name: or_null(mergeable(one, schemas)) for name, one in given.items()}
        return {**whole, "title": title, "description": patch_of.__doc__, "properties": properties, "required": []}

    return Special(title, (model,), make)


def mergeable(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """As it may stand in a merge patch: null takes out what need not be there, however deep. Arrays are replaced."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [mergeable(one, schemas) for one in schema["anyOf"]]}
    if "$ref" in schema:
        return mergeable(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if schema.get("type") != "object":
        return schema
    part = dict(schema)
    needed = schema.get("required", ())
    if "properties" in schema:
        part["properties"] = {
            name: one if name in needed else or_null(mergeable(plain(one), schemas))
            for name, one in schema["properties"].items()
        }
    if isinstance(schema.get("additionalProperties"), dict):
        part["additionalProperties"] = or_null(schema["additionalProperties"])
    return part


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if NULL in schema.get("anyOf", []) else {"anyOf": [schema, NULL]}


def _problem(_: dict[str, Any]) -> dict[str, Any]:
    place = {"description": "The part of the body (RFC 6901), empty for all of it.", "type": "string"}
    parameter = {"description": "The query parameter.", "type": "string"}
    detail = {"description": "What is wrong, and what would be right.", "type": "string"}
    why = " ".join(f"{code}: {text}" for code, text in MEANINGS.items())
    meaning = {
        "description": "Why the place is refused, though it is as this description says. Left out: it is not. " + why,
        "enum": list(MEANINGS),
    }
    errors = [
        {"type": "object", "properties": {name: one, "detail": detail, "code": meaning}, "required": [name, "detail"]}
        for name, one in (("pointer", place), ("parameter", parameter))
    ]
    known = {
        "type": {"type": "string", "pattern": "^urn:raftsched:problem:[a-z-]+$"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"description": "Stable.", "type": "string"},
        "detail": detail,
    }
    return {
        "title": "Problem",
        "description": "Problem details (RFC 9457).",
        "type": "object",
        "properties": {
            **known,
            "errors": {"type": "array", "items": {"oneOf": errors}},
            "offset": {"type": "integer", "description": "With wrong-offset: where the node's copy ends."},
        },
        "required": list(known),
        "additionalProperties": False,
    }


PROBLEM = Special("Problem", (), _problem)
