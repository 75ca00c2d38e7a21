"""Clients can be made of /openapi.json: linters and generators find nothing to refuse in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from raftsched.api.openapi.clients import typed
from raftsched.api.openapi.description import describe
from raftsched.api.routes import ROUTES
from tests.support.client_rules import complaints
from tests.support.documented import document


def test_nothing_is_refused() -> None:
    assert complaints(document()) == []


SOME = ("/docs", "/v1/cluster/snapshot", "/v1/jobs", "/v1/jobs/{id}", "/v1/jobs:actions")


def _some() -> dict[str, Any]:
    """Returns the description of some operations: what is wrong in it is found sooner."""
    made = copy.deepcopy(describe([route for route in ROUTES if route.path in SOME], "0"))
    for name in [name for name in made["components"]["headers"] if f"#/components/headers/{name}'" not in str(made)]:
        made["components"]["headers"].pop(name)
    return made


def _schema(made: dict[str, Any], name: str, **more: Any) -> None:
    made["components"]["schemas"][name].update(more)


BREAKS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a header that is not there": (
        lambda made: made["components"]["headers"].pop("Raftsched-Snapshot-Index"),
        "#/components/headers/Raftsched-Snapshot-Index does not exist",
    ),
    "a type that is not used": (
        lambda made: made["components"]["schemas"].update(JobOut={"type": "object"}),
        "components/schemas/JobOut: nothing refers to it",
    ),
    "nobody to ask": (lambda made: made["info"].pop("contact"), "info: contact"),
    "no servers": (lambda made: made.pop("servers"), "servers: "),
    "no description": (
        lambda made: made["paths"]["/docs"]["get"].pop("description"),
        "get /docs: summary and description",
    ),
    "ways that are called alike": (
        lambda made: _schema(made, "ActionsIn", anyOf=[{}]),
        "ActionsIn: several of oneOf, anyOf and allOf",
    ),
    "an object as a constant": (
        lambda made: _schema(made, "HandlerIn", const={}),
        "HandlerIn: a constant that is no text",
    ),
    "constants without a type": (
        lambda made: made["components"]["schemas"].update(RetryIn={"enum": ["a", "b"]}),
        "RetryIn: constants without a type",
    ),
    "a type that a way is called": (
        lambda made: made["components"]["schemas"].update(HandlerIn0={"type": "object"}),
        "type handlerin0: two have it",
    ),
    "an operation twice": (
        lambda made: made["paths"]["/docs"]["get"].update(operationId="snapshot-get"),
        "operationId snapshotget: two have it",
    ),
    "a parameter that the address does not have": (
        lambda made: made["paths"]["/v1/jobs/{id}"]["get"].update(parameters=[]),
        "get /v1/jobs/{id}: its path parameters",
    ),
    "a format that nobody knows": (
        lambda made: _schema(made, "RetryIn", format="span"),
        "RetryIn: the format span is not known",
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_what_is_refused_is_found(what: str) -> None:
    made = _some()
    assert complaints(made) == []
    damage, says = BREAKS[what]
    damage(made)
    assert any(says in text for text in complaints(made)), complaints(made)


def test_every_answer_that_is_a_problem_is_written_once() -> None:
    made = document()
    for methods in made["paths"].values():
        for one in methods.values():
            assert {"$ref"} in [set(answer) for answer in one["responses"].values()], one["operationId"]
    answers = [json.dumps(one, sort_keys=True) for one in made["components"]["responses"].values()]
    assert len(answers) == len(set(answers))
    for one in made["components"]["responses"].values():
        schema = one["content"]["application/problem+json"]["schema"]
        assert schema["$ref"] == "#/components/schemas/Problem"
        assert schema["properties"]["code"]["enum"]


def test_a_change_has_no_defaults() -> None:
    for name, schema in document()["components"]["schemas"].items():
        if name.endswith("Patch"):
            assert [field for field, one in schema["properties"].items() if "default" in one] == [], name


@pytest.mark.parametrize(
    ("schema", "then"),
    [
        ({"enum": ["a", "b"]}, {"enum": ["a", "b"], "type": "string"}),
        ({"const": False}, {"const": False, "type": "boolean"}),
        ({"const": None, "default": None}, {"type": "null", "default": None}),
        (
            {"enum": [1, None], "default": None, "description": "x"},
            {"description": "x", "default": None, "anyOf": [{"type": "integer", "enum": [1]}, {"type": "null"}]},
        ),
        ({"not": {"enum": [None, [], {}]}}, {"not": {"enum": [None, [], {}]}}),
        ({"properties": {"const": {"enum": [1]}}}, {"properties": {"const": {"enum": [1], "type": "integer"}}}),
    ],
)
def test_constants_say_their_type(schema: dict[str, Any], then: dict[str, Any]) -> None:
    assert typed(schema) == then
