"""Holds answers against the API's own description: the status, the headers, the media type and the body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from raftsched.api.openapi.description import describe
from raftsched.api.openapi.parameters import ALWAYS_ANSWERED, ANSWERED
from raftsched.api.routes import ROUTES
from tests.support.api_formats import CHECKS

_REFERENCE = re.compile(r'"#/components/schemas/([^"/]+)"')
BIG = 2_000_000  # bytes of a body that is not looked into: that would take too long


@cache
def document() -> dict[str, Any]:
    return describe(ROUTES, "0")


@cache
def _routes() -> list[tuple[str, re.Pattern[str], str]]:
    found = []
    for path, methods in document()["paths"].items():
        pattern = re.compile(re.sub(r"\\{[a-z]+\\}", "[^/]+", re.escape(path)))
        found += [(method.upper(), pattern, path) for method in methods]
    return found


def _answer(path: str, method: str, status: str) -> dict[str, Any]:
    """Returns what is said of an answer, also where that is a reference."""
    said: dict[str, Any] = document()["paths"][path][method]["responses"][status]
    if "$ref" in said:
        said = document()["components"]["responses"][said["$ref"].rpartition("/")[2]]
    return said


@cache
def _validator(path: str, method: str, status: str, media: str, part: bool) -> Any:
    content = _answer(path, method, status)["content"][media]["schema"]
    item = content.get("properties", {}).get("items", {}).get("items", {})
    if not part and "anyOf" in item:  # nobody asked for some fields only
        items = {"type": "array", "items": item["anyOf"][0]}
        content = {**content, "properties": {**content["properties"], "items": items}}
    return _compiled(json.dumps(content, sort_keys=True))


@cache
def _compiled(schema: str, *, formats: bool = False) -> Any:
    """Returns the validator of a schema, with the parts of the description that it names and no others: each validator
    has a copy of what it is given."""
    known = document()["components"]["schemas"]
    named: dict[str, Any] = {}
    texts = [schema]
    while texts:
        for name in set(_REFERENCE.findall(texts.pop())) - named.keys():
            named[name] = known[name]
            texts.append(json.dumps(known[name]))
    whole = {**json.loads(schema), "components": {"schemas": named}}
    return jsonschema_rs.Draft202012Validator(
        whole, validate_formats=formats, formats=dict(CHECKS) if formats else None
    )


def check(method: str, target: str, status: int, headers: Mapping[str, str], body: Any) -> None:
    """`body`: decoded when it is JSON. AssertionError says what is not documented; what is no operation is passed
    over."""
    address = target.partition("?")[0]
    wanted = "GET" if method == "HEAD" else method
    found = next((p for m, pattern, p in _routes() if m == wanted and pattern.fullmatch(address)), None)
    if found is None:
        return
    where = f"{method} {target[:200]}"
    responses = document()["paths"][found][wanted.lower()]["responses"]
    assert str(status) in responses, f"{where} answers {status}, which is not documented: {str(body)[:500]}"
    said = _answer(found, wanted.lower(), str(status))
    media = headers.get("Content-Type", "").partition(";")[0].strip()
    content = said.get("content", {})
    if status < 400:  # what is no HTTP is answered before anything is known
        for name in ALWAYS_ANSWERED:
            assert name in headers, f"{where} answers {status} without {name}"
    for name in headers:
        if name.startswith("Raftsched-") or name in ANSWERED:
            assert name in said["headers"], f"{where} answers {status} with {name}, which is not documented"
    if method == "HEAD" or status in (204, 304):
        return
    assert media in content, f"{where} answers {status} as {media!r}; documented are {list(content)}"
    if "json" not in media or len(str(headers.get("Content-Length", ""))) > len(str(BIG)):
        return
    errors = list(_validator(found, wanted.lower(), str(status), media, "fields=" in target).iter_errors(body))
    if errors:
        raise AssertionError(f"{where} answers {status} not as documented: {errors[0]}\n{str(body)[:2000]}")


@cache
def _body_validator(path: str, method: str, media: str) -> Any:
    return _compiled(
        json.dumps(document()["paths"][path][method]["requestBody"]["content"][media]["schema"]), formats=True
    )


def is_allowed(method: str, path: str, body: Any, media: str = "application/json") -> bool:
    """Returns whether the description lets an operation have this body, the formats of texts included. `path`: as the
    description has it."""
    found: bool = _body_validator(path, method.lower(), media).is_valid(body)
    return found
