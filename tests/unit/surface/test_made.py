"""What scripts/make-client makes of the API is up to date, and says what the API says."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Literal

import msgspec
import pytest

from raftsched.api.routes import ROUTES, joined
from raftsched.api.serving import SERVED, serves
from raftsched.surface.kinds import action
from raftsched.surface.operation import Operation, PageOf
from raftsched.surface.order import ORDER
from raftsched.surface.scalars import Duration, Time, TimeText
from raftsched.surface.sdk import Arg, Sdk
from scripts.make_client import (
    ROOT,
    answered,
    every_operation,
    given,
    kept,
    made,
    method,
    modules,
    operations,
    render_plain,
)


def test_what_is_made_is_up_to_date() -> None:
    texts = made()
    assert kept() == texts.keys(), "run scripts/make-client"
    old = [path for path, text in texts.items() if (ROOT / path).read_text("utf-8") != text]
    assert not old, "run scripts/make-client"


def test_the_client_speaks_of_none() -> None:
    texts = {path: (ROOT / path).read_text("utf-8") for path in kept() if path.startswith("raftsched/client/")}
    assert "None: " in texts["raftsched/client/generated/runs.py"]
    assert not [path for path, text in texts.items() if re.search(r"\bnull\b", text)]


def test_each_operation_is_served_once() -> None:
    assert every_operation() == {id: route.operation for id, route in SERVED.items()}
    assert [route.operation_id for route in ROUTES] == list(ORDER)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ORDER)


def test_an_operation_is_not_served_twice() -> None:
    async def handler() -> None: ...

    taken = next(iter(SERVED.values()))
    with pytest.raises(LookupError, match=f"{taken.operation_id} is served twice"):
        serves(taken.operation)(handler)  # type: ignore[type-var]


def test_an_operation_that_nobody_serves_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.api.routes.ORDER", (*ORDER, "silence_get"))
    with pytest.raises(LookupError, match="silence_get"):
        joined()


def test_a_job_has_an_operation_under_its_name_too() -> None:
    pause = action("p", "/v1/jobs/{id}/pause", "Pause", {200: None}, by_name=True, role="editor", sdk=Sdk("Jobs.pause"))
    own, named = pause.each()
    assert own is pause
    assert (named.id, named.path) == ("p_by_name", "/v1/namespaces/{ns}/jobs/{name}/pause")
    assert (named.role, named.codes, named.methods) == (pause.role, pause.codes, ())


def test_plain_modules_have_every_address() -> None:
    for name in modules():
        found: dict[str, str] = {}
        exec(render_plain(name), found)
        for constant, one in operations(name).items():
            assert found[constant] == one.path


def test_types_as_the_client_has_them() -> None:
    assert answered(Time | None) == "datetime | None"
    assert answered(list[dict[str, Time]]) == "list[dict[str, datetime]]"
    assert answered(Literal["a", "b"]) == "str"
    assert answered(TimeText | None) == "datetime | None"
    assert answered(msgspec.Raw) == "Any"
    assert answered(msgspec.Raw | None) == "Any"
    assert given(Time) == "Moment"
    assert given(dict[str, Duration] | None) == "Mapping[str, Duration] | None"
    assert given(Literal["a", "b"]) == 'Literal["a", "b"]'


class _Body(msgspec.Struct):
    until: Time | None = None
    kill: bool = False


def _method(one: Operation) -> str:
    return method(one, one.methods[0])


def test_a_method_that_reads() -> None:
    one = Operation("x", "GET", "/v1/things/{id}", "Read a thing", {200: dict[str, str]}, sdk=Sdk("Things.get"))
    assert dedent(_method(one)).splitlines() == [
        "async def get(self, id: str) -> dict[str, str]:",
        '    """Read a thing."""',
        '    return await self._transport.get(dict[str, str], f"/v1/things/{segment(id)}", own=False)',
    ]


def test_a_method_that_does_something() -> None:
    sdk = Sdk("Things.stop", ("id", "*", "until", "kill"), says="Stops it.")
    one = action("x", "/v1/things/{id}/stop", "Stop", {200: dict[str, str]}, body=_Body, sdk=sdk)
    signature, _, call = dedent(_method(one)).splitlines()
    assert signature == (
        "async def stop(self, id: str, *, until: Moment | None = None, kill: bool = False) -> dict[str, str]:"
    )
    assert call.strip() == (
        'return await self._transport.post(dict[str, str], f"/v1/things/{segment(id)}/stop", '
        'said({"until": until, "kill": kill}))'
    )


def test_a_method_that_lists() -> None:
    sdk = Sdk("Things.list", (Arg("**filters", "Unpack[Filter]"),))
    query = ("state", "limit", "cursor")
    one = Operation("x", "GET", "/v1/things", "List things", {200: PageOf(dict[str, str])}, query=query, sdk=sdk)
    assert dedent(_method(one)).splitlines() == [
        "def list(self, *, most: int | None = None, **filters: Unpack[Filter]) -> AsyncIterator[dict[str, str]]:",
        '    """List things."""',
        '    return each_of(self._transport, dict[str, str], "/v1/things", filters, most)',
    ]
