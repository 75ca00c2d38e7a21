"""The templates of keys, and what they come to for the params of a run."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.rules.key_templates import JOB_MARK, KeyTemplateError, parse, pointer, render


@pytest.mark.parametrize(
    ("template", "params", "value"),
    [
        ("all", {}, "all"),
        ("{params.tenant}", {"tenant": "acme"}, "acme"),
        ("t:{params.tenant}/{params.region}", {"tenant": 7, "region": "eu"}, "t:7/eu"),
        ("{params.a.b.c}", {"a": {"b": {"c": True}}}, "true"),
        ("{params.n}", {"n": 1.5}, "1.5"),
        ("{params.n}", {"n": False}, "false"),
        ("{job}-{params.t}", {"t": "x"}, f"{JOB_MARK}-x"),
        ("{params.größe}", {"größe": "ü"}, "ü"),
    ],
)
def test_values(template: str, params: dict[str, Any], value: str) -> None:
    assert render(template, params) == value


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("", "use 1 to 128"),
        ("x" * 129, "takes 129 bytes"),
        ("a}", "without a {"),
        ("{", "not closed"),
        ("{params.a", "not closed"),
        ("{params.{a}}", "not closed"),
        ("{}", "knows no {}"),
        ("{due}", "knows no {due}"),
        ("{params}", "knows no {params}"),
        ("{params.}", "knows no"),
        ("{params..a}", "knows no"),
        ("{ job }", "knows no"),
        ("{job}{job}", "more than once"),
        ("a\nb", "control characters"),
        ("a\0b", "control characters"),
    ],
)
def test_wrong_templates(template: str, says: str) -> None:
    with pytest.raises(KeyTemplateError, match=says.replace("{", r"\{").replace("}", r"\}")):
        parse(template)


@pytest.mark.parametrize(
    ("params", "at", "says"),
    [
        ({}, "/a", "is missing"),
        ({"a": {}}, "/a/b~1c", "is missing"),
        ({"a": "text"}, "/a/b~1c", "is missing"),
        ({"a": {"b/c": None}}, "/a/b~1c", "a string, a number"),
        ({"a": {"b/c": ["x"]}}, "/a/b~1c", "a string, a number"),
        ({"a": {"b/c": {"$secret": "pw"}}}, "/a/b~1c", "a string, a number"),
        ({"a": {"b/c": "\x7f"}}, "/a/b~1c", "control characters"),
    ],
)
def test_params_that_will_not_do(params: dict[str, Any], at: str, says: str) -> None:
    with pytest.raises(KeyTemplateError, match=says) as caught:
        render("{params.a.b/c}", params)
    assert caught.value.param is not None
    assert pointer(caught.value.param) == at


def test_the_length_of_values() -> None:
    assert len(render("{params.t}", {"t": "x" * 200})) == 200
    with pytest.raises(KeyTemplateError, match="takes 202 bytes"):
        render("{params.t}", {"t": "ü" * 101})
    with pytest.raises(KeyTemplateError, match="one at least"):
        render("{params.t}", {"t": ""})
