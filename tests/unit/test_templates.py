"""Templates: what becomes of each in its place, and what is refused with the place and what would be right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.core.limits import RUN_MAX
from raftsched.templates import Facts, filled, wrong_in
from tests.support.amounts import examples

FACTS = Facts(1_893_456_000_250, "Asia/Tokyo", 3, 4711, "report", "billing", "0abc@1893456000250")
PARAMS = {
    "region": "south",
    "n": 5,
    "f": 1.5,
    "yes": True,
    "deep": {"er": "x"},
    "list": [1],
    "none": None,
    "pw": {"$secret": "smtp"},
    "odd": 'a b/c?d&e="f"\\ñ{due}\n',
}


def exec_of(*arguments: str) -> dict[str, Any]:
    return {"exec": ["./run", *arguments], "template": True}


def http_of(**said: Any) -> dict[str, Any]:
    return {"http": {"url": "http://a/", **said}, "template": True}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("{due}", "2030-01-01T00:00:00.250Z"),
        ("{due:%Y-%m-%d}", "2030-01-01"),
        ("{due:%F %T%z}", "2030-01-01 09:00:00+0900"),
        ("{due:%s is day %j, 100%%}", "1893456000 is day 001, 100%"),
        ("{due:%G-W%V-%u %y%m%d %H:%M:%S}", "2030-W01-2 300101 09:00:00"),
        ("--to={params.region}/{params.n}", "--to=south/5"),
        ("{params.f} {params.yes} {params.deep.er}", "1.5 true x"),
        ("{attempt} {token} {job} {namespace} {instance}", "3 4711 report billing 0abc@1893456000250"),
        ("{{due}} {{{attempt}}} }}{{", "{due} {3} }{"),
        ("{params.odd}", PARAMS["odd"]),
        ("no braces, 100%", "no braces, 100%"),
    ],
)
def test_a_text(text: str, becomes: str) -> None:
    found, wrong = filled(exec_of(text), PARAMS, FACTS)
    assert (found["exec"], wrong) == (["./run", becomes], [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{day}", "{day}, which is no template; there are due"),
        ("{}", "no template"),
        ("{due }", "no template"),
        ("${HOME}", "{HOME}, which is no template"),
        ("{print $1", "a single {; write {{ for a brace"),
        ("a}", "a single }; write }} for a brace"),
        ("{params.gone}", "{params.gone}, which params do not have"),
        ("{params.n.x}", "params do not have"),
        ("{params.}", "params do not have"),
        ("{params}", "no template"),
        ("{params.deep}", "is an object; a template takes a text"),
        ("{params.list}", "is a list"),
        ("{params.none}", "is null"),
        ("{params.pw}", "is a secret"),
        ("{params.pw.$secret}", "is a secret"),
        ("{params.n:%Y}", "only due takes one"),
        ("{attempt:5}", "only due takes one"),
        ("{due:}", "has the format ''; write at most 64"),
        ("{due:today}", "with codes of %Y"),
        ("{due:%Q}", "with codes of %Y"),
        ("{due:%-d}", "with codes of %Y"),
        ("{due:%Y%}", "with codes of %Y"),
        ("{due:%Y" + "-" * 64 + "}", "at most 64 characters"),
    ],
)
def test_what_is_none(text: str, says: str) -> None:
    (wrong,) = wrong_in(exec_of("fine", text), PARAMS)
    assert wrong.pointer == "/handler/exec/2"
    assert says in wrong.detail


def test_every_place_is_named() -> None:
    handler = {
        "exec": ["{due}", "{a}", "b", "{c}"],
        "env": {"A/B": "{d}", "~": "{e}", "S": {"$secret": "pw"}},
        "cwd": "/srv/{due}",
        "http": {
            "url": "http://{params.region}/",
            "headers": {"X": "{f}", "Content-Type": "text/{due}"},
            "body": "{g}",
        },
    }
    assert [wrong.pointer for wrong in wrong_in(handler, PARAMS)] == [
        "/handler/cwd",
        "/handler/exec/0",
        "/handler/exec/1",
        "/handler/exec/3",
        "/handler/env/A~1B",
        "/handler/env/~0",
        "/handler/http/headers/X",
        "/handler/http/headers/Content-Type",
        "/handler/http/url",
        "/handler/http/body",
    ]


def test_shells_get_none() -> None:
    (wrong,) = wrong_in({"shell": "report {params.region}"}, PARAMS)
    assert wrong.pointer == "/handler/shell"
    assert "put it into env" in wrong.detail
    shell = "awk '{print $1}' ${due} | tr '{}' '()'; echo ${DAY}"
    found, none = filled({"shell": shell, "env": {"DAY": "{due:%F}"}}, PARAMS, FACTS)
    assert (found, none) == ({"shell": shell, "env": {"DAY": "2030-01-01"}}, []), "its own braces are left alone"


@pytest.mark.parametrize("program", ["sh", "/bin/bash", "/usr/bin/python3.11", "perl", "node"])
@pytest.mark.parametrize("option", ["-c", "-ec", "-e"])
def test_nor_does_what_an_interpreter_runs(program: str, option: str) -> None:
    handler = {"exec": [program, option, "-u", "run {params.region}", "x", "{params.region}"]}
    (wrong,) = wrong_in(handler, PARAMS)
    assert wrong.pointer == "/handler/exec/3"
    assert '"$1"' in wrong.detail
    assert not wrong_in({"exec": [program, "run.x", "{params.region}"]}, PARAMS)
    assert not wrong_in({"exec": ["grep", option, "{params.region}"]}, PARAMS), "which runs nothing"


@pytest.mark.parametrize(
    "command",
    [
        ["python3", "-cprint({params.region})"],
        ["node", "--eval=f({params.region})"],
        ["perl", "-E", "{params.region}"],
        ["env", "A=1", "sh", "-c", "{params.region}"],
        ["timeout", "5", "/bin/bash", "-c", "{params.region}"],
    ],
)
def test_nor_what_it_runs_behind_another_or_within_its_option(command: list[str]) -> None:
    (wrong,) = wrong_in({"exec": command}, PARAMS)
    assert wrong.pointer == f"/handler/exec/{len(command) - 1}"
    assert not wrong_in({"exec": ["timeout", "5", "./report", "-c", "{params.region}"]}, PARAMS)


def test_addresses() -> None:
    found, wrong = filled(http_of(url="http://a:80/{params.odd}/x%20y?q={params.odd}&d={due:%H:%M}"), PARAMS, FACTS)
    odd = "a%20b%2Fc%3Fd%26e%3D%22f%22%5C%C3%B1%7Bdue%7D%0A"
    assert (found["http"]["url"], wrong) == (f"http://a:80/{odd}/x%20y?q={odd}&d=09%3A00", [])
    for server in ("http://{job}/", "http://a{job}", "http://{job}@a/", "{job}://a/", "http://a:{attempt}?x"):
        (refused,) = wrong_in(http_of(url=server), PARAMS)
        assert (refused.pointer, "for its server" in refused.detail) == ("/handler/http/url", True)
    for params in ({"a": "..", "b": ""}, {"a": ".", "b": "."}, {"a": "", "b": "."}):
        assert wrong_in(http_of(url="http://a/x/{params.a}{params.b}/y"), params), "it would lead elsewhere"
    assert not wrong_in(http_of(url="http://a/../{params.a}?{params.b}"), {"a": "...", "b": ".."})
    assert "at most 2,048" in wrong_in(http_of(url="http://a/{params.a}"), {"a": "x" * 2_048})[0].detail


@settings(max_examples=examples(40), deadline=None)
@given(st.text())
def test_an_address_stays_one(value: str) -> None:
    found, wrong = filled(http_of(url="http://a/x/{params.a}/y"), {"a": value}, FACTS) if _is_text(value) else ({}, [1])
    if not wrong:
        assert found["http"]["url"].count("/") == 5
        assert found["http"]["url"].isascii()
        assert not set("?# \\") & set(found["http"]["url"])


def _is_text(value: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in value)


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", "application/cloudevents+json"]
)
def test_a_body_of_json(kind: str) -> None:
    body = '{"a": {"b": {}}, "{job}": "<{params.odd}> {{}} \\" {attempt}", "n": 1.0}'
    found, wrong = filled(http_of(headers={"content-type": kind}, body=body), PARAMS, FACTS)
    assert not wrong
    assert msgspec.json.decode(found["http"]["body"]) == {
        "a": {"b": {}},
        "report": f'<{PARAMS["odd"]}> {{}} " 3',
        "n": 1.0,
    }
    assert found["http"]["body"].endswith('"n": 1.0}'), "all else stays as it was written"
    assert "within its strings" in wrong_in(http_of(headers={"Content-Type": kind}, body='{"a": {job}}'), {})[0].detail


def test_other_bodies() -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    found, _ = filled(http_of(headers=form, body="a={params.odd}"), PARAMS, FACTS)
    assert found["http"]["body"] == "a=a%20b%2Fc%3Fd%26e%3D%22f%22%5C%C3%B1%7Bdue%7D%0A"
    found, _ = filled(http_of(body="{{a {params.odd}"), PARAMS, FACTS)
    assert found["http"]["body"] == "{a " + PARAMS["odd"]
    found, wrong = filled(http_of(body={"$secret": "x"}, headers={"A": {"$secret": "{job}"}}), PARAMS, FACTS)
    assert (found["http"]["body"], found["http"]["headers"], wrong) == (
        {"$secret": "x"},
        {"A": {"$secret": "{job}"}},
        [],
    )


def test_a_header_stays_one_line() -> None:
    found, _ = filled(http_of(headers={"X-Day": "{due:%F}\t{job}"}), PARAMS, FACTS)
    assert found["http"]["headers"] == {"X-Day": "2030-01-01\treport"}
    for bad in ("a\r\nB: c", "a\nb", "\0", "\x7f"):
        (wrong,) = wrong_in(http_of(headers={"X": "{params.a}"}), {"a": bad})
        assert (wrong.pointer, "one line" in wrong.detail) == ("/handler/http/headers/X", True)


def test_nothing_gets_a_nul() -> None:
    handler = {"exec": ["a", "{params.a}"], "env": {"B": "{params.a}"}}
    assert [wrong.pointer for wrong in wrong_in(handler, {"a": "\0"})] == ["/handler/exec/1", "/handler/env/B"]


def test_what_is_inserted_is_bounded() -> None:
    large = {"a": "x" * 1_000}
    assert not wrong_in(exec_of("{params.a}" * 100), large)
    (wrong,) = wrong_in(exec_of("{params.a}" * 122), large)
    assert (wrong.pointer, f"a run is given {RUN_MAX:,}" in wrong.detail) == ("/handler", True)
    (wrong,) = wrong_in(exec_of("{params.a}" * 60_000), large)
    assert "too long filled in" in wrong.detail, "and not made first"


def test_what_fits_by_its_longest_values_fits_by_any() -> None:
    assert not wrong_in(http_of(url="http://a/{due}{due:%F}{attempt}{token}{job}{namespace}{instance}"), {})
