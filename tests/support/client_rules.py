"""What linters and generators of clients refuse in an OpenAPI description, beside its being valid. Each rule says what
breaks without it. `./scripts/openapi-clients` asks such programs themselves, where they can be had."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.support.api_formats import CHECKS

FORMATS = {"binary", "date-time", *CHECKS}
_METHODS = {"get", "put", "post", "patch", "delete"}
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MAPS = {"properties", "schemas", "responses", "headers", "links", "securitySchemes", "patternProperties", "parameters"}
_UNUSED_ANYWAY = {"securitySchemes"}  # named, and not referred to


def complaints(document: dict[str, Any]) -> list[str]:
    """Returns everything that breaks a rule; empty when clients can be made of the description."""
    return [
        *_head(document),
        *_references(document),
        *_operations(document),
        *_names(document),
        *(text for place, one in _schemas(document, "#") for text in _shapes(place, one)),
    ]


def _head(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    if not info.get("contact") or not info.get("description"):
        yield "info: contact and description are asked for"
    if not document.get("servers"):
        yield "servers: clients take the base of all addresses from there"
    said = {tag["name"] for tag in document["tags"]}
    for name, one in _each_operation(document):
        if not set(one["tags"]) <= said:
            yield f"{name}: a tag that is not declared"


def _references(document: dict[str, Any]) -> Iterator[str]:
    used = set()
    for place, node in _nodes(document, "#"):
        reference = node.get("$ref")
        if not isinstance(reference, str):
            continue
        used.add(reference)
        if not _is_there(document, reference):
            yield f"{place}: {reference} does not exist"
    for kind, parts in document["components"].items():
        for name in parts:
            if kind not in _UNUSED_ANYWAY and f"#/components/{kind}/{name}" not in used:
                yield f"components/{kind}/{name}: nothing refers to it"


def _is_there(document: dict[str, Any], reference: str) -> bool:
    node: Any = document
    for part in reference.removeprefix("#/").split("/"):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    return True


def _operations(document: dict[str, Any]) -> Iterator[str]:
    names = Counter[str]()
    for path, methods in document["paths"].items():
        places = set(re.findall(r"\{([^}]*)\}", path))
        for method, one in methods.items():
            where = f"{method} {path}"
            names[_go(one.get("operationId", ""))] += 1
            if not _IDENTIFIER.fullmatch(one.get("operationId", "")):
                yield f"{where}: operationId is no identifier"
            if not one.get("description") or not one.get("summary"):
                yield f"{where}: summary and description are asked for"
            said = [(p["in"], p["name"]) for p in one["parameters"]]
            if {name for kind, name in said if kind == "path"} != places:
                yield f"{where}: its path parameters are not those of the address"
            if len({(kind, _go(name)) for kind, name in said}) != len(said):
                yield f"{where}: two parameters have one name in a client"
            if not any(status.startswith("2") for status in one["responses"]):
                yield f"{where}: no answer of success"
    yield from (f"operationId {name}: two have it in a client" for name, count in names.items() if count > 1)


def _names(document: dict[str, Any]) -> Iterator[str]:
    """Yields what cannot be types and fields of their own in Go."""
    schemas = document["components"]["schemas"]
    types = Counter(_go(name) for name in schemas)
    for name, schema in schemas.items():
        for key in ("oneOf", "anyOf", "allOf"):
            types.update(f"{_go(name)}{number}" for number, _ in enumerate(schema.get(key, ())))
    yield from (f"type {name}: two have it in a client" for name, count in types.items() if count > 1)
    for place, one in _schemas(document, "#"):
        fields = Counter(_go(name) for name in one.get("properties", {}))
        yield from (f"{place}: two fields are {name} in a client" for name, count in fields.items() if count > 1)


def _shapes(place: str, schema: dict[str, Any]) -> Iterator[str]:
    if len({"oneOf", "anyOf", "allOf"} & schema.keys()) > 1:
        yield f"{place}: several of oneOf, anyOf and allOf; the types that are made of them have the same names"
    constants = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if any(isinstance(one, dict | list | float) for one in constants) and "/not" not in place:
        yield f"{place}: a constant that is no text, number or flag"
    if constants and "type" not in schema and "/not" not in place:
        yield f"{place}: constants without a type; clients would take anything"
    if schema.get("format", "binary") not in FORMATS:
        yield f"{place}: the format {schema['format']} is not known"
    if "nullable" in schema or "example" in schema:
        yield f"{place}: a word of OpenAPI 3.0"
    if schema.get("type") == "array" and not {"items", "prefixItems"} & schema.keys():
        yield f"{place}: a list of what?"


def _each_operation(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method in methods.keys() & _METHODS:
            yield f"{method} {path}", methods[method]


def _nodes(node: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, list):
        for number, one in enumerate(node):
            yield from _nodes(one, f"{place}/{number}")
    elif isinstance(node, dict):
        yield place, node
        for key, one in node.items():
            yield from _nodes(one, f"{place}/{key}")


def _schemas(node: Any, place: str, *, named: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields what may be a schema, and no map from names to such: a field may be called `type`."""
    if isinstance(node, list):
        for number, one in enumerate(node):
            yield from _schemas(one, f"{place}/{number}")
    elif isinstance(node, dict):
        if not named:
            yield place, node
        for key, one in node.items():
            if named or key not in ("default", "enum", "const"):
                yield from _schemas(one, f"{place}/{key}", named=not named and key in _MAPS)


def _go(name: str) -> str:
    """Returns a name as clients write it: without what parts its words, and whatever their case was."""
    return re.sub(r"[^A-Za-z0-9]+", "", name).lower()
