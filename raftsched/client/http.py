"""A small synchronous HTTP client that knows several nodes of one cluster.

Any node takes any request, so a node that cannot be reached, or that answers 503 (nothing was done), is passed over
for the next one. What was sent and not answered is another matter: only requests that may be repeated without harm
(GET, PUT, DELETE, every POST under its Idempotency-Key, and those the caller marks) go to the next node, everything
else ends as "unknown-outcome".
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from raftsched import __version__
from raftsched.client.connection import BrokenAnswer, Connection
from raftsched.client.errors import ClientError, error_of
from raftsched.client.servers import Server
from raftsched.client.trust import SYSTEM, Trust, check_clear, is_of_certificate, is_of_tls

CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 30.0
_READS = frozenset({"GET", "HEAD"})
_REPEATABLE = _READS | {"PUT", "DELETE"}
_LIMITED = "rate-limited"  # code of a refusal that is over after a while
_ERROR_MAX = 1 << 20  # bytes


Token = str | Callable[[Server], str | None] | None


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        """The decoded body. ClientError "internal" when it is not JSON, which no node answers."""
        try:
            return json.loads(self.body) if self.body else None
        except ValueError:
            raise ClientError(
                "internal", "The answer is not JSON; is this a raftsched node?", status=self.status
            ) from None


class _NotSent(Exception):
    """This server got nothing of the request."""


class _Unanswered(Exception):
    """This server got (some of) the request, and no answer came back."""


class Client:
    """Not thread-safe. Each request has a connection of its own: a kept one that died meanwhile could not be told from
    a request that was done."""

    def __init__(
        self, servers: Sequence[Server], *, timeout: float = TIMEOUT_S, token: Token = None, trust: Trust = SYSTEM
    ) -> None:
        """`timeout`: seconds to wait for an answer (and between two pieces of it). `token`: sent with each request; or
        what to send to which server. `trust`: who is spoken to by TLS, and whether tokens may go in clear."""
        self.servers = list(servers)
        self.token = token
        self.trust = trust
        self.timeout = timeout
        self._wrote: tuple[Server, int] | None = None  # who did the last change, and the log's index by then

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.request("GET", path, query=query).json()

    def post(self, path: str, body: Any = None, *, repeatable: bool = True) -> Any:
        """With an Idempotency-Key of its own: the cluster does it once, however many nodes have to be asked."""
        answer = self.request("POST", path, body={} if body is None else body, headers=own_key(), repeatable=repeatable)
        return answer.json()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Answer:
        """Sends to one node after the other until one answers; raises ClientError for every answer from 400 on."""
        connection = self._open(method, path, query, body, headers, repeatable)
        try:
            return Answer(connection.status, connection.headers, connection.body())
        except (OSError, BrokenAnswer) as e:
            if method in _READS:
                raise ClientError("unreachable", f"The connection broke during the answer: {_why(e)}") from None
            raise _unknown(method, path, f"the connection broke during the answer: {_why(e)}") from None
        finally:
            connection.close()

    def stream(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        silent_s: float | None = None,
        answered: Callable[[Mapping[str, str]], None] | None = None,
    ) -> Iterator[bytes]:
        """The body of a GET piece by piece, as it comes; waits for each as long as the node does, or `silent_s`.
        `answered` is told the headers of the answer, names in lower case, before the first piece."""
        connection = self._open("GET", path, query, None, headers, True)
        try:
            if answered is not None:
                answered(connection.headers)
            connection.wait_for(silent_s)
            yield from connection.pieces()
        except (OSError, BrokenAnswer) as e:
            raise ClientError("unreachable", f"The connection broke during the answer: {_why(e)}") from None
        finally:
            connection.close()

    def items(self, path: str, query: Mapping[str, Any], most: int | None) -> Iterator[dict[str, Any]]:
        """The items of a list, page after page, `most` of them (None: all)."""
        left = most
        cursor: str | None = None
        while left is None or left > 0:
            page = min(1000, left) if left is not None else 1000
            answer = self.get(path, {**query, "limit": page, "cursor": cursor})
            for item in answer["items"]:
                yield item
                if left is not None:
                    left -= 1
            before, cursor = cursor, answer.get("next")
            if not cursor or cursor == before:  # an empty page may go on: the node looks at so many rows at a time
                return

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str] | None,
        repeatable: bool | None,
    ) -> Connection:
        """With the head of an answer below 400."""
        may_repeat = method in _REPEATABLE if repeatable is None else repeatable
        sent = {
            "Accept": "application/json, */*",
            "User-Agent": f"raftsched-cli/{__version__}",
        }
        data: bytes | None = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        failures: list[tuple[Server, str]] = []
        refusal: ClientError | None = None
        uncertain = False
        self._check_clear()
        for server in list(self.servers):
            try:
                connection = self._in_time(
                    server, method, path + _query(self._fresh(server, method, path, query)), data, sent
                )
            except _NotSent as e:
                failures.append((server, str(e)))
                continue
            except _Unanswered as e:
                if not may_repeat:
                    raise _unknown(method, path, f"{server} {e}") from None
                uncertain = True
                failures.append((server, str(e)))
                continue
            if 300 <= connection.status < 400 and "location" in connection.headers:
                connection.close()
                raise redirected(server, connection.status, connection.headers["location"])
            if connection.status < 400:
                self._prefer(server)
                if method not in _READS:
                    self._wrote = server, _index(connection.headers)
                return connection
            error = _error(connection)
            if connection.status == 503:
                refusal = refusal or error  # of an earlier 504 more is to be said
            elif connection.status == 504 and may_repeat:
                uncertain, refusal = True, error
            elif connection.status == 404 and method == "DELETE" and uncertain:
                # an earlier node got this very request and did not answer: what should be gone is gone
                raise ClientError("not-found", f"{error.detail} (an earlier attempt may have deleted it)", status=404)
            else:
                self._prefer(server)
                raise error
        if uncertain and method not in _READS and (refusal is None or refusal.status != 504):
            raise _unknown(method, path, "; ".join(f"{server} {why}" for server, why in failures))
        raise refusal or _unreachable(failures)

    def _in_time(
        self, server: Server, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Connection:
        """As `_try`; who is told to come again later does so, where that is within the time for an answer. Raises what
        it does, and ClientError."""
        waited = 0.0
        while True:
            connection = self._try(server, method, target, data, headers)
            if connection.status != 429:
                return connection
            error = _error(connection)
            wait = _retry_after(connection.headers)
            if error.code != _LIMITED or wait is None or waited + wait > self.timeout:
                self._prefer(server)
                raise error
            time.sleep(wait)
            waited += wait

    def _try(
        self, server: Server, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Connection:
        try:
            connection = Connection(server, CONNECT_TIMEOUT_S, self.trust)
        except (OSError, UnicodeError) as e:
            raise _NotSent(self.trust.explain(e, server) if is_of_tls(e) else _why(e)) from None
        token = self.token(server) if callable(self.token) else self.token
        if token:
            headers = {**headers, "Authorization": f"Bearer {token}"}
        try:
            connection.wait_for(self.timeout)
            connection.request(method, target, headers, data)
            return connection
        except BaseException as e:
            connection.close()
            if isinstance(e, TimeoutError):
                raise _Unanswered(f"did not answer within {self.timeout:g} s") from None
            if isinstance(e, BrokenAnswer):
                raise _Unanswered(f"{e}{self.trust.hint(server)}") from None
            if isinstance(e, OSError) and is_of_certificate(e):
                raise _NotSent(self.trust.explain(e, server)) from None
            if isinstance(e, OSError):
                raise _Unanswered(f"broke the connection: {_why(e)}{self.trust.hint(server)}") from None
            raise

    def _check_clear(self) -> None:
        """Raises ClientError "insecure"."""
        for server in self.servers:
            check_clear([server], self.token(server) if callable(self.token) else self.token, self.trust)

    def _fresh(
        self, server: Server, method: str, path: str, query: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Another node than the one that made a change has it a moment later: a read waits there until it has."""
        if method not in _READS or self._wrote is None or not path.startswith("/v1/") or path == "/v1/cluster":
            return query
        other, index = self._wrote
        return query if server == other or not index else {**(query or {}), "min_index": index}

    def _prefer(self, server: Server) -> None:
        """The next request begins with the node that answered this one."""
        self.servers.remove(server)
        self.servers.insert(0, server)


def own_key() -> dict[str, str]:
    """The headers of a request that nobody else sends."""
    return {"Idempotency-Key": os.urandom(16).hex()}


def segment(text: str) -> str:
    """One part of a path."""
    return quote(text, safe="")


def _index(headers: Mapping[str, str]) -> int:
    """0: it is not said."""
    text = headers.get("raftsched-index", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0


def redirected(server: Server, status: int, to: str) -> ClientError:
    """Nobody is followed to another place: it would get the token."""
    where = "".join(c for c in to[:200] if c.isprintable())
    return ClientError("redirected", f"{server} redirects to {where}; say that address if it is meant", status=status)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; None: it does not say."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _query(query: Mapping[str, Any] | None) -> str:
    """Values that are None are left out; lists are repeated; booleans as JSON writes them."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None:
                pairs.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return f"?{urlencode(pairs)}" if pairs else ""


def _error(connection: Connection) -> ClientError:
    """Closes the connection."""
    try:
        raw = connection.body(_ERROR_MAX)
    except (OSError, BrokenAnswer):
        raw = b""
    finally:
        connection.close()
    return error_of(connection.status, connection.reason, raw)


def _unreachable(failures: Sequence[tuple[Server, str]]) -> ClientError:
    tried = "; ".join(f"{server} {why}" for server, why in failures)
    hint = "; start one with 'raftsched dev', or say --server URL[,URL] (or RAFTSCHED_SERVER)"
    met = any("certificate" in why or "TLS" in why for _, why in failures)  # somebody is there
    return ClientError("unreachable", f"no node answers: {tried}{'' if met else hint}")


def _unknown(method: str, path: str, why: str) -> ClientError:
    return ClientError(
        "unknown-outcome",
        f"{why}; it is not known whether {method} {path} was done, "
        + ("it is safe to repeat it" if method in _REPEATABLE else "look before you repeat it"),
    )


def _why(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections"
    if isinstance(error, TimeoutError):
        return "does not respond"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
