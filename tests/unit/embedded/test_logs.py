"""A node's log as JSON: an object a line, with what is known of whom a line is about."""

from __future__ import annotations

import ast
import json
import logging
import re
from pathlib import Path

import pytest

from raftsched.embedded.logs import EXTRAS, JsonFormatter, TextFormatter
from raftsched.tracing.current import Here, here
from tests.support.modules import MODULES, nodes

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    logger = logging.getLogger("raftsched.raft")
    made = logger.makeRecord(logger.name, logging.WARNING, __file__, 1, message, args, None, extra=extra)
    made.created = 1_893_456_000.25
    return made


def test_a_line_is_an_object() -> None:
    text = JsonFormatter("n1").format(record("peer %s\nis away", "n2", term=7, instance="x@1"))
    assert "\n" not in text
    assert json.loads(text) == {
        "at": "2030-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "raftsched.raft",
        "node": "n1",
        "message": "peer n2\nis away",
        "term": 7,
        "instance": "x@1",
    }


def given() -> set[str]:
    """The names of all that lines of the log are given beside their message."""
    return {
        key.value
        for path in MODULES
        for call in nodes(path)
        if isinstance(call, ast.Call) and ast.unparse(call.func) != "Meta"  # which is given types
        for node in call.keywords
        if node.arg == "extra" and isinstance(node.value, ast.Dict)
        for key in node.value.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


@pytest.mark.slow
def test_what_lines_are_given_is_shown() -> None:
    assert given() == set(EXTRAS)
    found = json.loads(JsonFormatter("n1").format(record("x", **dict.fromkeys(EXTRAS, "y"))))
    assert {name for name, value in found.items() if value == "y"} == set(EXTRAS)


def test_the_text_shows_the_message_alone() -> None:
    assert TextFormatter().format(record("n1 leads", term=7)).endswith(" WARNING raftsched.raft n1 leads")


def test_the_page_lists_the_fields() -> None:
    section = PAGE.partition("## Logs\n")[2].partition("\n## ")[0]
    listed = [
        name for first in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", first)
    ]
    assert sorted(listed) == sorted(["at", "level", "logger", "node", "message", "error", *Here._fields, *EXTRAS])
    example = json.loads(re.findall(r"```json\n(.*)\n```", section)[0])
    assert set(example) <= set(listed)


def test_a_line_about_a_request_with_a_trace_names_its_span() -> None:
    token = here.set(Here("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"))
    try:
        found = json.loads(JsonFormatter("n1").format(record("x")))
    finally:
        here.reset(token)
    assert (found["trace_id"], found["span_id"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert not set(Here._fields) & set(json.loads(JsonFormatter("n1").format(record("x"))))


def test_an_exception_comes_with_its_traceback() -> None:
    try:
        raise OSError("no disk")
    except OSError as error:
        made = record("it failed")
        made.exc_info = (type(error), error, error.__traceback__)
    found = json.loads(JsonFormatter("n1").format(made))
    assert found["message"] == "it failed"
    assert found["error"].splitlines()[-1] == "OSError: no disk"


def test_what_is_no_json_is_written_as_text() -> None:
    assert json.loads(JsonFormatter("n1").format(record("x", job=b"raw")))["job"] == "b'raw'"


def test_what_a_line_quotes_makes_no_line_of_its_own() -> None:
    path = "/v1/jobs/a\n2030-01-01 00:00:00,000 INFO raftsched.node forged\r\x1b[2K\u2028b"
    text = TextFormatter().format(record("refused with 401: GET %s", path))
    assert len(text.splitlines()) == 1
    assert text.isprintable()
    assert "WARNING raftsched.raft refused with 401: GET /v1/jobs/a\\n2030" in text
    assert text.endswith("forged\\r\\x1b[2K\\u2028b")


def test_a_traceback_has_lines_of_its_own() -> None:
    try:
        raise OSError("no disk")
    except OSError as error:
        made = record("it failed, \u00e4nd so")
        made.exc_info = (type(error), error, error.__traceback__)
    lines = TextFormatter().format(made).splitlines()
    assert lines[0].endswith("WARNING raftsched.raft it failed, \u00e4nd so")
    assert lines[-1] == "OSError: no disk"
