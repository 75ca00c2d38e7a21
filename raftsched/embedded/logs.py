"""Writes the log of a node's own process on stderr: lines for people, or a JSON object each for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from raftsched.tracing.current import here

_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
# Shown when whoever logs gives them: log.info(..., extra={"job": ...}). `attempt` is a token, `session` a number.
EXTRAS = ("term", "peer", "session", "job", "instance", "attempt", "request", "actor", "remote")


class TextFormatter(logging.Formatter):
    """Formats a message as one line. Text that it quotes (addresses that strangers ask for, names, texts of other
    programs) may hold line breaks and commands for terminals. They are escaped, so that nobody can forge a line. Only
    the traceback of an exception has lines of its own."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name is logging's
        return printable(super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """Formats a message as a JSON object in one line: at (RFC 3339, UTC, milliseconds), level, logger, node, message;
    EXTRAS where they are given; trace_id and span_id of the request that it is about, where there are traces; error
    with the traceback of an exception."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "node": self._node,
            "message": record.getMessage(),
        }
        extras: Mapping[str, Any] = record.__dict__
        line.update({name: extras[name] for name in EXTRAS if name in extras})
        span = here.get()
        if span is not None:
            line.update(span._asdict())
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def printable(text: str) -> str:
    """Returns the text in one line, with what cannot be printed written as Python writes it in a string."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def configure(log_format: str, node: str) -> logging.Handler:
    """Sends logs from INFO on to stderr, as `log_format` says. Returns what does so."""
    handler = logging.StreamHandler()
    write_as(handler, log_format, node)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return handler


def write_as(handler: logging.Handler, log_format: str, node: str) -> None:
    """Makes it write as `log_format` says."""
    handler.setFormatter(JsonFormatter(node) if log_format == "json" else TextFormatter())
