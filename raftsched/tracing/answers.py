"""Bounds what is read of a collector's answer: the package that sends spans would read all of it."""

from __future__ import annotations

import io
from typing import Any

import requests
from requests.adapters import HTTPAdapter

MOST = 64 << 10  # bytes of an answer


class _Bounded(HTTPAdapter):
    def send(self, request: requests.PreparedRequest, *args: Any, **named: Any) -> requests.Response:
        response = super().send(request, *args, **named)
        head = response.raw.read(MOST, decode_content=False)
        if len(head) == MOST:
            response.raw.close()  # and with it the connection: there may be more
        response.raw = io.BytesIO(head)
        return response


def bounded_session() -> requests.Session:
    """Returns what sends requests, and reads MOST bytes of each answer, as they come: nothing is inflated."""
    session = requests.Session()
    session.headers["Accept-Encoding"] = "identity"
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Bounded())
    return session
