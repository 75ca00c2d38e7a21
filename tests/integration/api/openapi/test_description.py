"""/openapi.json and /docs say what the API does. That every other test's answers are as documented is checked by their
client (tests.support.documented)."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from raftsched.api.routes import ROUTES
from raftsched.errors import KINDS
from tests.support.documented import check, document
from tests.support.local_api import Client

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}


def test_the_description_is_openapi() -> None:
    assert not list(OpenAPIV31SpecValidator(document()).iter_errors())


def test_every_route_is_described() -> None:
    paths = document()["paths"]
    for route in ROUTES:
        one = paths[route.path][route.method.lower()]
        assert one["summary"], route.path
        assert one["responses"], route.path
        assert ("requestBody" in one) <= (route.method in ("POST", "PUT", "PATCH")), route.path
    names = [one["operationId"] for methods in paths.values() for one in methods.values()]
    assert len(names) == len(set(names)) == len(ROUTES)


def test_every_problem_is_known_and_every_reference_leads_somewhere() -> None:
    for said in (route.operation for route in ROUTES):
        assert set(said.codes) <= set(KINDS), said.summary
    schemas = document()["components"]["schemas"]
    for name in re.findall(r"#/components/schemas/([A-Za-z]+)'", str(document())):
        assert name in schemas


async def test_the_parameters_are_those_that_are_taken(call: Client) -> None:
    _, made = await call("POST", "/v1/jobs", {**JOB, "name": "a"})
    address = {"{ns}": "default", "{name}": "a", "{session}": "1-0", "{token}": "1"}
    for route in ROUTES:
        path = route.path.replace("{id}", made["id"] if "/jobs/" in route.path else "n1")
        path = path.replace("/instances/n1", f"/instances/{made['id']}@1")
        for part, value in address.items():
            path = path.replace(part, value)
        body = {} if route.method in ("POST", "PUT", "PATCH") else None
        status, problem = await call(route.method, f"{path}?zzz=1", body)
        said = route.operation
        assert status == (403 if said.peers else 400), (route.method, path, problem)
        assert said.peers or '"zzz" is not a parameter' in problem["detail"]
        for name in said.query:
            end = "&follow=false" if said.streams and name != "follow" else ""
            _, answer = await call(route.method, f"{path}?{name}=1{end}", body)
            assert "is not a parameter" not in str(answer), (route.method, path, name)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.ids |= {given["id"] or ""} if "id" in given else set()
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}


async def test_the_documents_are_served_and_the_page_needs_nothing_else(call: Client) -> None:
    status, served = await call("GET", "/openapi.json")
    assert status == 200
    assert served == document()
    status, text = await call("GET", "/docs")
    assert status == 200
    assert "default-src 'none'" in call.headers["Content-Security-Policy"]
    page = _Page()
    page.feed(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    left = page.links - {"/openapi.json"} - {f"#{name}" for name in page.ids}
    assert left == {"/ui/docs/api/", "/ui/docs/reference/errors/"}, "those of this node, and no others"
    assert "@import" not in text
    assert "url(" not in text
    for methods in document()["paths"].values():
        for one in methods.values():
            assert one["operationId"] in page.ids


@pytest.mark.parametrize(
    ("status", "kind", "body", "says"),
    [
        (418, "application/json", {}, "not documented"),
        (200, "text/html", "", "documented are"),
        (200, "application/json", {"items": [{}], "next": None}, "not as documented"),
        (503, "application/problem+json", {"status": 503}, "not as documented"),
    ],
)
def test_what_is_not_documented_is_noticed(status: int, kind: str, body: Any, says: str) -> None:
    headers = {"Content-Type": kind, "Raftsched-Leader": "n1", "Raftsched-Term": "1", "Raftsched-Index": "1"}
    check("GET", "/v1/jobs?limit=1", 200, {**headers, "Content-Type": "application/json"}, {"items": [], "next": None})
    with pytest.raises(AssertionError, match=says):
        check("GET", "/v1/jobs", status, headers, body)
