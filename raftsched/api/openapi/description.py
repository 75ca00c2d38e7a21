"""The OpenAPI 3.1 description of the API, made from the route table and the types that requests and answers have.

Nothing is listed here that is declared elsewhere: addresses and methods are those of the routes, bodies and answers
those types, the statuses of problems those of `raftsched.errors`, words those of the handlers' docstrings.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import Any

import msgspec

from raftsched.api.http.problems import MEDIA_TYPE
from raftsched.api.openapi import parameters
from raftsched.api.openapi import types as openapi_types
from raftsched.api.openapi.clients import Problems, referred, typed
from raftsched.api.openapi.links import Links
from raftsched.api.serving import Route
from raftsched.errors import KINDS
from raftsched.surface import PREFIX
from raftsched.surface.operation import ALWAYS, HEALTH, READS, AnyOf, Operation, PageOf, Reply, Special
from raftsched.surface.specials import PROBLEM

_REFERENCE = "#/components/schemas/{name}"
_PART = re.compile(r"\{([a-z]+)\}")
_ABOUT = (
    "A job scheduler that is its own cluster. Any node takes any request. Errors are problem details (RFC 9457) with a "
    "stable `code`. Times are RFC 3339, durations such as 30s, 5m, 1h30m, or ISO 8601. Lists are read page by page: "
    "`next`, or the Link header, leads on. Every GET may be asked as HEAD."
)
_WITH = {  # status -> headers that its problems may have
    401: ("WWW-Authenticate",),
    409: ("Retry-After",),
    416: ("Content-Range", "Raftsched-Served-By"),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
_TOKENS = (
    "A token of /v1/tokens, or of the issuer that /v1/cluster/oidc names. It is needed once PUT /v1/cluster/access has "
    "said so."
)

_NOTHING = "This changes nothing: an Idempotency-Key may be sent, and is not looked at."
_REPEATABLE = "It may be sent again as it is: an Idempotency-Key is not looked at."


def describe(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Returns the description, as it is answered."""
    schemas = _Schemas()
    links = Links(routes)
    problems = Problems(lambda status, codes: _problem(status, codes, schemas))
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    tags: dict[str, None] = {}
    for route in routes:
        tag = _tag(route.path)
        tags[tag] = None
        paths[_address(route.path)][route.method.lower()] = _operation(route, tag, schemas, links, problems)
    made: dict[str, Any] = typed(
        _document(version, dict(paths), tags, schemas.components(), problems.components(), links)
    )
    return made


def _document(
    version: str,
    paths: dict[str, Any],
    tags: Iterable[str],
    schemas: dict[str, Any],
    problems: dict[str, Any],
    links: Links,
) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "raftsched",
            "version": version or "0",
            "description": _ABOUT,
            "contact": {"name": "The maintainers of raftsched"},
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The node that was asked for this description."}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "tags": [{"name": tag} for tag in tags],
        "components": {
            "schemas": referred(paths, schemas, problems),
            "responses": problems,
            "headers": {name: _header(name) for name in parameters.ANSWERED},
            "links": links.components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": _TOKENS}},
        },
    }


def _address(path: str) -> str:
    return re.sub(r"\{([a-z]+):[^}]*\}", r"{\1}", path)


def _tag(path: str) -> str:
    parts = [part for part in path.split("/") if part and part != "v1"]
    if parts[:1] == ["namespaces"] and "jobs" in parts:
        return "jobs"
    return parts[0].partition(":")[0] if path.startswith(PREFIX) else "node"


def _operation(route: Route, tag: str, schemas: _Schemas, links: Links, problems: Problems) -> dict[str, Any]:
    declared = route.operation
    found: dict[str, Any] = {
        "operationId": route.operation_id,
        "tags": [tag],
        "summary": declared.summary,
        "parameters": [*_path_parameters(route.path), *_query(declared), *_headers(route, declared)],
        "responses": _responses(route, declared, schemas, links, problems),
    }
    texts = [declared.says or inspect.getdoc(route.handler), _NOTHING if declared.changes_nothing else None]
    if declared.repeatable:
        texts.append(_REPEATABLE)
    if declared.role == "open":
        found["security"] = []
    else:
        found["x-role"] = declared.role or "admin"
        texts.append(f"Where tokens are required: the role {declared.role or 'admin'}{_whole(route, declared)}.")
    if any(texts):
        found["description"] = " ".join(text for text in texts if text)
    if declared.body is not None:
        content = {media: {"schema": schemas.of(_line_of(declared.body, media))} for media in declared.media}
        found["requestBody"] = {"required": declared.body_required, "content": content}
    return found


def _whole(route: Route, declared: Operation) -> str:
    narrowed = declared.scope or "namespace" in declared.query or "{ns}" in route.path
    return "" if narrowed else ", for all namespaces"


def _line_of(body: Any, media: str) -> Any:
    """Returns the type of a body. With one value in each line, the body as a whole is text."""
    return str if "ndjson" in media or "jsonl" in media else body


def _path_parameters(path: str) -> list[dict[str, Any]]:
    found = []
    pieces = _address(path).split("/")
    for before, piece in pairwise(pieces):
        match = _PART.fullmatch(piece)
        if match:
            about = parameters.PATH.get(before, parameters.PATH_DEFAULT)
            schema, text = parameters.PATH["name"] if before == "jobs" and match[1] == "name" else about
            found.append({"name": match[1], "in": "path", "required": True, "description": text, "schema": schema})
    return found


def _query(declared: Operation) -> list[dict[str, Any]]:
    found = []
    for name in declared.query:
        schema, text = parameters.QUERY[name]
        schema = declared.schemas.get(name, schema)
        one = {
            "name": name,
            "in": "query",
            "required": name in declared.required,
            "description": text,
            "schema": schema,
        }
        if schema.get("type") == "array":
            one |= {"style": "form", "explode": False}
        found.append(one)
    return found


def _headers(route: Route, declared: Operation) -> list[dict[str, Any]]:
    found = []
    for name in declared.headers:
        schema, text = parameters.HEADERS[name]
        if name == "If-None-Match" and route.method == "GET":
            schema, text = parameters.READ_TAGS
        elif name == "If-Match" and declared.of_job:
            schema, text = parameters.TAG_OF_A_NAME if "{name}" in route.path else parameters.TAG_OF_AN_ID
        schema = declared.schemas.get(name, schema)
        found.append({"name": name, "in": "header", "required": False, "description": text, "schema": schema})
    return found


def codes_of(route: Route, declared: Operation) -> list[str]:
    """All problems that it may answer, in the order of their statuses."""
    codes = {*ALWAYS, *declared.codes}
    if declared.role != "open":
        codes |= {"unauthorized", "forbidden", "behind", "overloaded"}  # the last two: of a token that may be a new one
    if route.path not in HEALTH:
        codes |= {"locked", "rate-limited"}
    if "consistency" in declared.query:
        codes |= {*READS}
    if "{" in route.path and not codes & {"no-such-member"}:
        codes.add("not-found")
    return sorted(codes, key=lambda code: (KINDS[code].status, code))


def _responses(
    route: Route, declared: Operation, schemas: _Schemas, links: Links, problems: Problems
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, answer in declared.answers.items():
        found[str(status)] = _response(status, answer, schemas)
        leads = links.of(answer)
        if leads:
            found[str(status)]["links"] = leads
    by_status: defaultdict[int, list[str]] = defaultdict(list)
    for code in codes_of(route, declared):
        by_status[KINDS[code].status].append(code)
    for status, codes in by_status.items():
        if str(status) not in found:
            found[str(status)] = problems.of(status, codes)
            continue
        own = found[str(status)]  # beside an answer of this operation's own
        own.setdefault("content", {})[MEDIA_TYPE] = {"schema": _problem_schema(status, codes, schemas)}
        own["description"] += f" Or: {_titles(codes)}."
    return dict(sorted(found.items()))


def _problem(status: int, codes: Sequence[str], schemas: _Schemas) -> dict[str, Any]:
    return {
        "description": f"{_titles(codes)}.",
        "headers": _answered([*parameters.ANY_MAY_ANSWER, *_WITH.get(status, ())]),
        "content": {MEDIA_TYPE: {"schema": _problem_schema(status, codes, schemas)}},
    }


def _problem_schema(status: int, codes: Sequence[str], schemas: _Schemas) -> dict[str, Any]:
    """Narrows what stands beside the reference and not in an `allOf`: generators of clients make a type of each of
    those, and here one is enough."""
    narrowed = {"status": {"const": status}, "code": {"enum": [*codes]}}
    return {**schemas.of(PROBLEM), "properties": narrowed}


def _titles(codes: Iterable[str]) -> str:
    return "; ".join(f"{KINDS[code].title} ({code})" for code in codes)


def _response(status: int, answer: Reply, schemas: _Schemas) -> dict[str, Any]:
    one: dict[str, Any] = {
        "description": answer.says or f"{HTTPStatus(status).phrase}.",
        "headers": _answered([*parameters.ANY_MAY_ANSWER, *answer.headers]),
    }
    if answer.schema is not None:
        one["content"] = {answer.media: {"schema": schemas.of(answer.schema)}}
    return one


def _answered(names: Sequence[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header(name: str) -> dict[str, Any]:
    schema, text = parameters.ANSWERED[name]
    return {"description": text, "schema": schema}


class _Schemas:
    """References to the types that were asked for, and in the end the schemas of all of them."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}

    def of(self, model: Any) -> dict[str, Any]:
        if isinstance(model, dict):
            return model
        if isinstance(model, AnyOf):
            return {"anyOf": [self.of(one) for one in model.types]}
        if isinstance(model, PageOf):
            return {
                "type": "object",
                "properties": {
                    "items": {"type": "array", "items": self.of(model.item)},
                    "next": {"type": ["string", "null"]},
                },
                "required": ["items", "next"],
            }
        if isinstance(model, Special):
            for part in model.parts:
                self.of(part)
            self._types[model.name] = model
            return {"$ref": _REFERENCE.format(name=model.name)}
        (schema,), found = msgspec.json.schema_components([model], ref_template=_REFERENCE)
        self._types.update(dict.fromkeys(found, None) | {name: found[name] for name in found})
        return schema

    def components(self) -> dict[str, Any]:
        plain = {name: one for name, one in self._types.items() if not isinstance(one, Special)}
        for name, schema in plain.items():
            openapi_types.refine(name, schema)
        special = {one.name: one.make(plain) for one in self._types.values() if isinstance(one, Special)}
        return dict(sorted({**plain, **special}.items()))
