"""The command line's requests: sends them over `connection.py`, as `policy.py` decides.

Every node is asked once. A request that may not be repeated and is not answered ends as "unknown-outcome".
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from raftsched.client.connection import BrokenAnswer, Connection, NotHttp
from raftsched.client.errors import ClientError, NotRaftschedError, error_of
from raftsched.client.policy import READS, REPEATABLE, Exchange, Rules
from raftsched.client.server_order import Nodes
from raftsched.client.servers import Server
from raftsched.client.strangers import is_strange, of_proxy, sender_of
from raftsched.client.trust import SYSTEM, Trust, check_clear, is_of_certificate, is_of_tls
from raftsched.client.wire import log_index, own_key, query_text
from raftsched.surface import PREFIX
from raftsched.surface.plain import cluster
from raftsched.system.clock import SystemClock
from raftsched.version import __version__

CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 30.0
_WAITS_FOR = frozenset({"rate-limited"})  # a person does not want to wait for the other limits
_BROKE = "broke the connection during its answer"
_ERROR_MAX = 1 << 20  # bytes


Token = str | Callable[[Server], str | None] | None


class Answer(NamedTuple):
    """An answer below 400."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    server: str = ""  # whose it is

    def json(self) -> Any:
        """Returns the decoded body. Raises NotRaftschedError when it is not JSON, which no node answers."""
        try:
            return json.loads(self.body) if self.body else None
        except ValueError:
            raise NotRaftschedError("not-raftsched", f"{self.server} {is_strange(self.status, self.headers)}") from None


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
        self._nodes = Nodes(servers, discover=False)
        self._now = SystemClock().monotonic
        self.token = token
        self.trust = trust
        self.timeout = timeout
        self._wrote: tuple[Server, int] | None = None  # who did the last change, and the log's index by then

    @property
    def servers(self) -> list[Server]:
        """The nodes, in the order in which the next request asks them."""
        return self._nodes.order(self._now(), lead=False)

    def twin(self) -> Client:
        """Returns another client of the same nodes, for another thread."""
        return Client(self._nodes.given, timeout=self.timeout, token=self.token, trust=self.trust)

    def _token(self, server: Server) -> str | None:
        return self.token(server) if callable(self.token) else self.token

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.request("GET", path, query=query).json()

    def post(self, path: str, body: Any = None, *, repeatable: bool = True) -> Any:
        """Sends a POST with an Idempotency-Key of its own: the cluster does it once, however many nodes have to be
        asked."""
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
        """Sends to one node after the other until one answers. Raises ClientError for every answer from 400 on."""
        exchange = self._exchange(method, path, repeatable)
        while True:
            connection = self._head(exchange, method, path, query, body, headers)
            try:
                return Answer(connection.status, connection.headers, connection.body(), str(connection.server))
            except (OSError, BrokenAnswer) as e:
                exchange.unanswered(f"{_BROKE}: {_why(e)}", self._now())
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
        """Gives the body of a GET piece by piece as it comes; waits for each without end, or `silent_s` seconds.
        `answered` is called with the headers, names in lower case, before the first piece."""
        connection = self._head(self._exchange("GET", path, True), "GET", path, query, None, headers)
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
        """Gives the items of a list, page after page, `most` of them (None: all)."""
        for page, _ in self.pages(path, query, most):
            yield from page

    def pages(
        self, path: str, query: Mapping[str, Any], most: int | None, cursor: str | None = None
    ) -> Iterator[tuple[list[dict[str, Any]], str | None]]:
        """Gives a list page by page, `most` items of it (None: all), each with the cursor of what comes after it; None:
        nothing does. `cursor`: after which it begins."""
        left = most
        while left is None or left > 0:
            answer = self.get(path, {**query, "limit": min(1000, left or 1000), "cursor": cursor})
            if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
                raise NotRaftschedError("not-raftsched", f"{self.servers[0]} is not raftsched: its answer has no items")
            before, cursor = cursor, answer.get("next") or None
            if cursor == before:
                cursor = None
            page = answer["items"][:left]
            if left is not None:
                left -= len(page)
            yield page, cursor
            if cursor is None:  # an empty page may go on: the node looks at so many rows at a time
                return

    def _exchange(self, method: str, path: str, repeatable: bool | None) -> Exchange:
        for server in self.servers:
            check_clear([server], self._token(server), self.trust)
        rules = Rules(self.timeout, False, _unknown, _unreachable, _WAITS_FOR)
        return Exchange(rules, self._nodes, method, path, now=self._now(), repeatable=repeatable)

    def _head(
        self,
        exchange: Exchange,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> Connection:
        """Returns a connection with the head of the first answer that is no error. Raises ClientError."""
        sent = {"Accept": "application/json, */*", "User-Agent": f"raftsched-cli/{__version__}"}
        data: bytes | None = None
        if body is not None:
            data = body if isinstance(body, bytes) else _json(body)
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        while True:
            server, seconds = exchange.next(self._now())
            if server is None:
                time.sleep(seconds)
                continue
            target = path + query_text(self._fresh(server, method, path, query))
            try:
                connection = self._try(server, method, target, data, sent)
            except _NotSent as e:
                exchange.not_sent(str(e), self._now())
                continue
            except NotHttp as e:
                exchange.strange(str(e), self._now())
                continue
            except _Unanswered as e:
                exchange.unanswered(str(e), self._now())
                continue
            if sender_of(connection.status, connection.headers) == "stranger":
                connection.close()
                exchange.strange(is_strange(connection.status, connection.headers), self._now())
                continue
            try:
                verdict = exchange.answered(connection.status, connection.headers)
            except ClientError:
                connection.close()
                raise
            if verdict == "take":
                if exchange.writes:
                    self._wrote = server, log_index(connection.headers)
                return connection
            error = _error(connection, server)
            if verdict == "done before":
                raise ClientError("not-found", f"{error.detail} (an earlier attempt may have deleted it)", status=404)
            exchange.refused(error, connection.headers)

    def _try(
        self, server: Server, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Connection:
        try:
            connection = Connection(server, CONNECT_TIMEOUT_S, self.trust)
        except (OSError, UnicodeError) as e:
            raise _NotSent(self.trust.explain(e, server) if is_of_tls(e) else _why(e)) from None
        token = self._token(server)
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
            if isinstance(e, NotHttp):
                raise
            if isinstance(e, BrokenAnswer):
                raise _Unanswered(f"{e}{self.trust.hint(server)}") from None
            if isinstance(e, OSError) and is_of_certificate(e):
                raise _NotSent(self.trust.explain(e, server)) from None
            if isinstance(e, OSError):
                raise _Unanswered(f"broke the connection: {_why(e)}{self.trust.hint(server)}") from None
            raise

    def _fresh(
        self, server: Server, method: str, path: str, query: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Returns the query; with the index of this client's last write where another node is asked, which may lag
        behind and then waits until it has that index."""
        if method not in READS or self._wrote is None or not path.startswith(PREFIX) or path == cluster.STATUS:
            return query
        other, index = self._wrote
        return query if server == other or not index else {**(query or {}), "min_index": index}


def _json(body: Any) -> bytes:
    """Raises ClientError for NaN and Infinity."""
    try:
        return json.dumps(body, allow_nan=False).encode()
    except ValueError:
        from raftsched.client.encoding import not_finite

        place = next(not_finite(body), None)
        if place is None:
            raise
        raise ClientError("invalid-json", f"{place}, which JSON does not have; give null or a text for it") from None


def _error(connection: Connection, server: Server) -> ClientError:
    """Returns the error that an answer holds, and closes the connection."""
    try:
        raw = connection.body(_ERROR_MAX)
    except (OSError, BrokenAnswer):
        raw = b""
    finally:
        connection.close()
    status, reason, headers = connection.status, connection.reason, connection.headers
    said = "" if sender_of(status, headers) == "raftsched" else of_proxy(server, status, reason, headers)
    return error_of(status, reason, raw, said)


def _unreachable(failures: Mapping[Server, str], _: float) -> ClientError:
    tried = "; ".join(f"{server} {why}" for server, why in failures.items())
    hint = "; start one with 'raftsched dev', or say --server URL[,URL] (or RAFTSCHED_SERVER)"
    met = any("certificate" in why or "TLS" in why or _BROKE in why for why in failures.values())  # somebody is there
    return ClientError("unreachable", f"no node answers: {tried}{'' if met else hint}")


def _unknown(method: str, path: str, why: str, answer: ClientError | None) -> ClientError:
    return answer or ClientError(
        "unknown-outcome",
        f"{why}; it is not known whether {method} {path} was done, "
        + ("it is safe to repeat it" if method in REPEATABLE else "look before you repeat it"),
    )


def _why(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections"
    if isinstance(error, TimeoutError):
        return "does not respond"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
