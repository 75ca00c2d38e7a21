"""The HTTP API: every operation with its role, parameters, body, answers and errors, from the OpenAPI description."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raftsched.api.http.problems import MEDIA_TYPE
from raftsched.api.openapi.description import describe
from raftsched.api.routes import ROUTES
from raftsched.api.serving import Route
from raftsched.errors import KINDS
from raftsched.version import __version__
from scripts.website.reference.text import code, plain, table

FOLDER = "reference/api"
# As a reader of /openapi.json gets it.
DOCUMENT: dict[str, Any] = json.loads(json.dumps(describe(ROUTES, __version__)))
_SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
_NAMED: dict[str, Any] = DOCUMENT["components"]["responses"]
_OPERATIONS = [
    (method.upper(), path, one) for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()
]
_TAGS: dict[str, str] = {one["operationId"]: one["tags"][0] for _, _, one in _OPERATIONS}
_NEARLY_ALL = 0.9
_JOB, _SHARED = "reference/job.md", f"{FOLDER}/types.md"


def home(route: Route) -> str:
    """Returns where an operation is, from the folder of the API."""
    return f"{_TAGS[route.operation_id]}.md#{_anchor(route.method, re.sub(r':[^}]*}', '}', route.path))}"


def pages() -> dict[str, str]:
    """Returns a page for each kind of resource, one for the types that several have, and one that lists all."""
    by_tag = defaultdict(list)
    for method, path, one in _OPERATIONS:
        by_tag[one["tags"][0]].append((method, path, one))
    made = {}
    lists = []
    for tag, operations in by_tag.items():
        here = f"{FOLDER}/{tag}.md"
        texts = [text for method, path, one in operations for text in _operation(method, path, one, here)]
        types = list(type_tables(here))
        heading = ["## Types\n\n"] if types else []
        made[here] = "".join([f"# {tag.replace('-', ' ').capitalize()}\n\n", *texts, *heading, *types])
        rows = [
            (
                f"[{method} {plain(path)}]({tag}.md#{_anchor(method, path)})",
                plain(one["summary"]),
                one.get("x-role", ""),
            )
            for method, path, one in operations
        ]
        lists.append(f"## {tag}\n\n" + table(("operation", "", "role"), rows))
    made[_SHARED] = "# Types that several have\n\n" + "".join(type_tables(_SHARED))
    about = (
        f"# Every operation\n\n{plain(DOCUMENT['info']['description'])} Each node serves this as `/docs`, and to"
        " programs as"
        " `/openapi.json`. Where tokens are required, an operation needs the role that stands beside it, or a"
        " higher one.\n\n"
    )
    common = (
        f"## Errors of all operations\n\nAny operation may answer these, those that need no token not all of them:"
        f" {_listed(sorted(_COMMON, key=lambda name: (KINDS[name].status, name)))}. [What they"
        " mean](../errors.md).\n\n"
    )
    made[f"{FOLDER}/index.md"] = about + "".join(lists) + common
    return made


def type_tables(here: str) -> Iterator[str]:
    """Yields the types that have their place on this page."""
    for name, schema in _SCHEMAS.items():
        if _HOMES[name] == here:
            yield from _type(name, schema, here)


def word(schema: Mapping[str, Any], here: str) -> str:
    """Returns a type in a few words, with a link where it has a name. `here`: the page, whose links they are."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        there = _HOMES[name]
        return f"[{name}]({_way(here, there)}#{name.lower()})"
    for key, joint in (("anyOf", " or "), ("oneOf", " or "), ("allOf", " and ")):
        if key in schema:
            ways = [one for one in schema[key] if one.get("type") != "null"]
            return joint.join(dict.fromkeys(word(one, here) for one in ways)) or "any"
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(str(one)) for one in schema["enum"])
    if schema.get("properties", {}).keys() == {"items", "next"}:
        return f"page of {word(schema['properties']['items']['items'], here)}"
    kind = schema.get("type", "any")
    kinds = [one for one in ([kind] if isinstance(kind, str) else kind) if one != "null"]
    if "array" in kinds:
        return f"list of {word(schema.get('items', {}), here)}" + _bounds(schema, "Items")
    if schema.get("description"):
        return plain(schema["description"]) + (_bounds(schema, "Length") if kinds == ["string"] else "")
    return plain(" or ".join(kinds)) + _bounds(schema, "Length" if kinds == ["string"] else "imum")


def _bounds(schema: Mapping[str, Any], what: str) -> str:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if most is None or most >= 2**53:  # what numbers of JSON can be
        return "" if not least else f", {least:,} or more"
    return f", at most {most:,}" if not least else f", {least:,} to {most:,}"


def _operation(method: str, path: str, one: Mapping[str, Any], here: str) -> Iterator[str]:
    yield f"## {method} {path} {{ #{_anchor(method, path)} }}\n\n**{plain(one['summary'])}.**"
    yield f" {plain(one['description'])}\n\n" if one.get("description") else "\n\n"
    if "x-role" not in one:
        yield "It needs no token.\n\n"
    yield table(
        ("parameter", "in", "type", ""),
        (
            (code(p["name"]) + (" (needed)" if p["required"] and p["in"] != "path" else ""), p["in"],
             word(p["schema"], here), plain(p.get("description", "")))
            for p in one["parameters"]
        ),
    )  # fmt: skip
    if "requestBody" in one:
        ways = [f"{word(c['schema'], here)} as `{media}`" for media, c in one["requestBody"]["content"].items()]
        yield f"**Body**{'' if one['requestBody']['required'] else ' (may be left out)'}: {', or '.join(ways)}.\n\n"
    yield table(("answer", "", "content"), _answers(one, here))
    own = [name for name in codes(one) if name not in _COMMON]
    if own:
        of_all = "[those of all](index.md#errors-of-all-operations)"
        yield f"**[Errors](../errors.md)**: {_listed(own)}; and {of_all}.\n\n"


def _listed(codes: Iterable[str]) -> str:
    return ", ".join(f"`{name}` ({KINDS[name].status})" for name in codes)


def _answers(one: Mapping[str, Any], here: str) -> Iterator[tuple[str, str, str]]:
    for status, answer in _said(one):
        content = {media: c for media, c in answer.get("content", {}).items() if media != MEDIA_TYPE}
        if content or int(status) < 400:
            says = answer["description"].partition(" Or: ")[0]
            yield code(status), plain(says), ", ".join(word(c["schema"], here) for c in content.values()) or "nothing"


def _said(one: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each status with its answer, also where that is a reference."""
    for status, answer in one["responses"].items():
        yield status, _NAMED[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer


def codes(one: Mapping[str, Any]) -> list[str]:
    """Returns the codes of the errors that an operation of the description may answer."""
    found: list[str] = []
    for _, answer in _said(one):
        problem = answer.get("content", {}).get(MEDIA_TYPE)
        if problem is not None:
            found += problem["schema"]["properties"]["code"]["enum"]
    return found


def _type(name: str, schema: Mapping[str, Any], here: str) -> Iterator[str]:
    yield f"### {name} {{ #{name.lower()} }}\n\n"
    if schema.get("description"):
        yield plain(schema["description"]) + "\n\n"
    if "enum" in schema:
        yield ", ".join(code(str(one)) for one in schema["enum"]) + "\n\n"
    # ways that only narrow the fields (JobIn: one trigger or several) are in its description
    ways = [schema] if "properties" in schema else schema.get("oneOf") or [schema]
    for way in ways:
        if len(ways) > 1:
            yield f"With `{way.get('title', '')}`:\n\n"
        needed = way.get("required", ())
        rows = (
            (code(field) + (" (always)" if field in needed else ""), word(one, here), _default(one))
            for field, one in way.get("properties", {}).items()
            if one not in ({"type": "null"}, {"const": False, "type": "boolean"})
        )
        yield table(("field", "type", "default"), rows)


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else code(json.dumps(default))


def _anchor(method: str, path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{method} {path}".lower()).strip("-")


def _way(here: str, there: str) -> str:
    if here == there:
        return ""
    if _JOB not in (here, there):
        return there.rpartition("/")[2]
    return "../job.md" if there == _JOB else there.removeprefix("reference/")


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str) and "/schemas/" in value["$ref"]:
            yield value["$ref"].rpartition("/")[2]
        for one in value.values():
            yield from _refs(one)
    elif isinstance(value, list):
        for one in value:
            yield from _refs(one)


def _reached(value: Any) -> set[str]:
    found: set[str] = set()
    waiting = [*_refs(value)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _refs(_SCHEMAS[name])
    return found


def _homes() -> dict[str, str]:
    """Returns for each type the page that it is on: that of the fields of a job, that of the only resource that has it,
    or the one for all others."""
    users = defaultdict(set)
    for _, _, one in _OPERATIONS:
        for name in _reached(one):
            users[name].add(one["tags"][0])
    of_jobs = _reached(_SCHEMAS["JobIn"])
    found = {}
    for name in _SCHEMAS:
        tags = users[name]
        only = f"{FOLDER}/{next(iter(tags))}.md" if len(tags) == 1 else _SHARED
        found[name] = _JOB if name in of_jobs else only
    return found


_HOMES = _homes()
# what nearly each operation may answer; it is said once
_COMMON = {
    name for name in KINDS if sum(name in codes(one) for _, _, one in _OPERATIONS) > len(_OPERATIONS) * _NEARLY_ALL
}
