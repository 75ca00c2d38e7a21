"""A node's log as JSON: an object a line, with what is known of whom a line is about."""

from __future__ import annotations

import json
import logging

from raftsched.embedded.logs import JsonFormatter, TextFormatter


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
