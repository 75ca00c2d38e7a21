"""The id by which a request that failed is found in the log: its caller is told it, and the log's line has it."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping

from raftsched.errors import RaftschedError

HEADER = "X-Request-Id"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


def failed(
    log: logging.Logger, headers: Mapping[str, str], error: BaseException | None, words: str, *args: object
) -> RaftschedError:
    """Logs an error that is a bug, with its traceback, and returns the problem that the caller is answered with."""
    ident = request_id(headers)
    log.error(words, *args, exc_info=error, extra={"request": ident})
    return RaftschedError("internal", f"An error of this node; its log says more about the request {ident}.")


def request_id(headers: Mapping[str, str]) -> str:
    """Returns the id that the caller or a proxy before it gave the request, if it is plain; else a new one."""
    given = headers.get(HEADER, "")
    return given if _ID.fullmatch(given) else secrets.token_hex(8)
