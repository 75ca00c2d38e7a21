"""What the editor of a job reckons: values by path, merge patches, places in a JSON text, lines for a shell."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.support.browser import Tab

MODEL = "pages/editor/model.js"


@pytest.fixture(scope="module")
def tab(units: Tab) -> Tab:
    return units


@pytest.mark.parametrize(
    ("value", "path", "given", "made"),
    [
        ({"a": 1}, ["b"], 2, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "x": 2}}, ["a", "b"], 3, {"a": {"b": 3, "x": 2}}),
        ({"a": {"b": 1}, "c": 1}, ["a", "b"], None, {"c": 1}),
        ({"a": "text"}, ["a", "b"], 1, {"a": {"b": 1}}),
        ({"a": [{"b": 1}, {"b": 2}]}, ["a", 1, "b"], 3, {"a": [{"b": 1}, {"b": 3}]}),
        ({"unknown": [1]}, ["name"], "n", {"unknown": [1], "name": "n"}),
    ],
)
def test_a_value_is_set_and_all_else_stays(tab: Tab, value: Any, path: list[Any], given: Any, made: Any) -> None:
    script = (
        "async ([value, path, given]) => {"
        ' const app = document.querySelector("script[type=module]").src;'
        f' const {{ withValue }} = await import(new URL("{MODEL}", app).href);'
        " return withValue(value, path, given ?? undefined); }"
    )
    assert tab.page.evaluate(script, [value, path, given]) == made


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": None}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": "1", "c": "3"}}, {"labels": {"b": None, "c": "3"}}),
        ({"labels": {"b": "2", "a": "1"}}, {"labels": {"a": "1", "b": "2"}}, {}),
        ({"conditions": [1, 2]}, {"conditions": [2]}, {"conditions": [2]}),
        # these two are replaced whole, for merging would leave two kinds
        ({"trigger": {"cron": "* * * * *", "jitter": "1s"}}, {"trigger": {"cron": "0 * * * *", "jitter": "1s"}},
         {"trigger": {"cron": "0 * * * *", "jitter": "1s"}}),
        ({"handler": {"shell": "a"}}, {"handler": {"exec": ["a"]}}, {"handler": {"exec": ["a"]}}),
    ],
)  # fmt: skip
def test_the_patch_makes_one_of_the_other(tab: Tab, before: Any, after: Any, patch: Any) -> None:
    assert tab.call(MODEL, "patchOf", before, after) == patch
    assert tab.call(MODEL, "patched", before, patch) == after


TEXT = """{
  "name": "a \\"quoted\\" [name]",
  "trigger": {"cron": "0 2 * * *"},
  "handler": {
    "env": {"A/B": "1", "C": {}},
    "exec": ["x", "y"]
  },
  "retry": {}
}"""


@pytest.mark.parametrize(
    ("pointer", "line", "text"),
    [
        ("/name", 2, '"a \\"quoted\\" [name]"'),
        ("/trigger/cron", 3, '"0 2 * * *"'),
        ("/handler/env/A~1B", 5, '"1"'),
        ("/handler/env/C", 5, "{}"),
        ("/handler/exec/1", 6, '"y"'),
        ("/retry/delays/0", 8, "{}"),
        ("/nowhere", 1, TEXT),
        ("", 1, TEXT),
    ],
)
def test_a_pointer_leads_to_a_place_in_the_text(tab: Tab, pointer: str, line: int, text: str) -> None:
    found = tab.call(MODEL, "placeOf", TEXT, pointer)
    assert (found["line"], TEXT[found["start"] : found["end"]]) == (line, text)


def test_one_job_or_several(tab: Tab) -> None:
    assert tab.call(MODEL, "jobsOf", '{"a": 1}') == {"jobs": [{"a": 1}], "many": False}
    assert tab.call(MODEL, "jobsOf", '[{"a": 1}]') == {"jobs": [{"a": 1}], "many": True}
    assert tab.call(MODEL, "jobsOf", '{"a": 1}\n\n{"b": 2}\n') == {"jobs": [{"a": 1}, {"b": 2}], "many": True}


@pytest.mark.parametrize("body", [{"a": "it's"}, {"a": '$HOME `x` \\ " \n'}, {"a": "é—"}])
def test_lines_for_a_shell_say_what_is_meant(tab: Tab, body: dict[str, Any]) -> None:
    line = tab.call(MODEL, "curlLine", "POST", "http://x/v1/jobs", body, {"token": True})
    printed = f"curl() {{ for one; do printf '%s\\0' \"$one\"; done; }}; TOKEN=secret; {line}"
    words = subprocess.run(["sh", "-c", printed], capture_output=True, check=True).stdout.decode().split("\0")
    assert json.loads(words[words.index("-d") + 1]) == body
    assert "Authorization: Bearer secret" in words
    assert "secret" not in line
    cli = tab.call(MODEL, "cliLine", "http://x", "jobs create -f -", body)
    printed = f"raftsched() {{ cat; }}; {cli}\n"
    assert json.loads(subprocess.run(["sh", "-c", printed], capture_output=True, check=True).stdout) == body


def test_what_somebody_else_changed_is_told_field_by_field(tab: Tab) -> None:
    before = {"timeout": "5m", "labels": {"a": "1"}, "owner": "ana"}
    after = {"timeout": "10m", "labels": {"a": "2"}}
    changes = tab.call("pages/editor/conflict.js", "changesOf", before, after, {"labels": {"a": "3"}})
    assert [(one["path"], one["before"], one["after"], one["both"]) for one in changes] == [
        ("timeout", '"5m"', '"10m"', False),
        ("labels.a", '"1"', '"2"', True),
        ("owner", '"ana"', "nothing", False),
    ]
