"""Requests to a cluster whose nodes come and go: sent, sent again where that is safe, and answered or refused.

Every request has one deadline, within which nodes are asked in turn, again and again with growing pauses. Whatever
changes something carries an Idempotency-Key or is the same when done twice, so that it can be sent again after an
answer that did not come; what cannot ends as UnknownOutcomeError.
"""

from __future__ import annotations

import asyncio
import copy
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
import orjson

from raftsched import __version__
from raftsched.client.errors import ClientError, UnavailableError, UnknownOutcomeError, error_of
from raftsched.client.http import own_key, redirected
from raftsched.client.models import Page
from raftsched.client.models_cluster import ClusterView
from raftsched.client.nodes import Nodes
from raftsched.client.servers import Server
from raftsched.client.trust import SYSTEM, Trust, check_clear, in_clear, is_of_certificate, is_of_tls

CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 30.0
FILES_EVERY_S = 5.0  # those of TLS are looked at
CONNECTIONS_MAX = 100  # open at a time; requests beyond that wait for one
PAUSE_S = (0.05, 1.0)  # between two rounds over all nodes: first, most
LAST_TRY_S = 0.25  # what is left of the time when a write that was refused for the moment is tried for the last time
ERROR_MAX = 1 << 20  # bytes of an error's body that are read
_AGAIN = frozenset({"no-leader", "overloaded", "stopping", "behind"})  # nothing was done; another node may do it
_ELSEWHERE = frozenset({"no-leader", "stopping"})  # another node may do it at any moment: not waited for as they say
_READS = frozenset({"GET", "HEAD"})
_REPEATABLE = _READS | {"PUT", "PATCH", "DELETE"}

_T = TypeVar("_T")
_any = msgspec.json.Encoder().encode
_PLAIN = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
Query = Mapping[str, Any]
Connector = Callable[[], aiohttp.BaseConnector]  # makes one, in the event loop where it is used


def encode(value: object) -> bytes:
    """The JSON of a request's body. orjson does plain dicts in half the time; what else JSON can be made of (times,
    bytes, decimals, structs, keys that are numbers, integers of any size) is msgspec's."""
    try:
        return orjson.dumps(value, option=_PLAIN)
    except TypeError:
        return _any(value)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def decoded(self, kind: type[_T]) -> _T:
        """Raises ClientError "internal" for what no node answers."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, ValueError) as error:
            raise ClientError("internal", f"The answer cannot be read: {error}", status=self.status) from None


class _NotSent(Exception):
    """This server got nothing of the request."""


class _NotTrusted(_NotSent):
    """Nor would it later: certificates are not what they should be."""


class _Unanswered(Exception):
    """This server got (some of) the request, and no answer came back."""


@dataclass(slots=True)
class _Shared:
    """By a transport and those that `within` made of it."""

    index: int = 0
    session: aiohttp.ClientSession | None = None
    learning: asyncio.Task[None] | None = None
    closed: bool = False
    tls: ssl.SSLContext | None = None
    tls_marks: tuple[object, ...] = ()  # of the files that it is made of,
    tls_looked: float = float("-inf")  # which were looked at then


class Transport:
    """For one event loop."""

    def __init__(
        self,
        nodes: Nodes,
        *,
        timeout: float = TIMEOUT_S,
        connector: Connector | None = None,
        token: str | None = None,
        trust: Trust = SYSTEM,
    ) -> None:
        """`timeout`: seconds for a request, with all its repeats. `connector`: how nodes are reached; None: by TCP.
        `token`: sent with each request. `trust`: who is spoken to by TLS."""
        self._token = token
        self._trust = trust
        self._headers = {"Accept": "application/json, */*", "User-Agent": f"raftsched-python/{__version__}"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.nodes = nodes
        self._connector = connector
        self.timeout = timeout
        self._shared = _Shared()

    def within(self, timeout: float) -> Transport:
        """The same with another timeout: connections, and what is known of the cluster, are shared."""
        other = copy.copy(self)
        other.timeout = timeout
        return other

    @property
    def index(self) -> int:
        """Of the log, up to which this client's own writes reach."""
        return self._shared.index

    @index.setter
    def index(self, index: int) -> None:
        self._shared.index = index

    async def close(self) -> None:
        shared = self._shared
        shared.closed = True
        if shared.learning is not None:
            shared.learning.cancel()
            await asyncio.gather(shared.learning, return_exceptions=True)
        if shared.session is not None:
            await shared.session.close()

    # ------------------------------------------------------------ requests

    async def get(self, kind: type[_T], path: str, query: Query | None = None, *, own: bool = True) -> _T:
        """`own`: what this client wrote before is seen, whichever node answers."""
        if own and self.index:
            query = {**(query or {}), "min_index": self.index}
        try:
            return (await self.send("GET", path, query=query)).decoded(kind)
        except ClientError as error:
            if error.code == "behind":
                self.index = 0  # the cluster may have been restored from a backup: next time, as it is
            raise

    async def post(self, kind: type[_T], path: str, body: Any = None, *, query: Query | None = None) -> _T:
        """With an Idempotency-Key of its own."""
        raw = encode({} if body is None else body)
        return (await self.send("POST", path, query=query, body=raw, headers=own_key(), repeatable=True)).decoded(kind)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Answer:
        """Raises ClientError for every answer from 400 on, and where none came. `repeatable`: doing it twice is the
        same as once; None: as the method says (RFC 9110, section 9.2.2, and a merge patch is the same done twice)."""
        may_repeat = method in _REPEATABLE if repeatable is None else repeatable
        for last in (not may_repeat, True):
            async with self._open(method, path, query, body, headers, may_repeat, self.timeout) as (
                response,
                uncertain,
            ):
                if uncertain and method == "DELETE" and response.status == 404:
                    return Answer(204, response.headers, b"")  # an earlier attempt did it, and was not answered
                try:
                    raw = await response.read()
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    if not last:
                        continue
                    if method in _READS:
                        raise UnavailableError("unreachable", f"The connection broke in the answer: {error}") from None
                    raise _unknown(method, path, "the connection broke in the answer") from None
                if method not in _READS:
                    self.index = max(self.index, _index(response.headers))
                return Answer(response.status, response.headers, raw)
        raise AssertionError("the last turn answers or raises")

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query | None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer of a GET whose body comes bit by bit, however long that takes. What breaks it is aiohttp's."""
        async with self._open("GET", path, query, None, headers, True, None) as (response, _):
            yield response

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        may_repeat: bool,
        read_timeout: float | None,
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, bool]]:
        """The first good answer, and whether an earlier attempt may have been done. A 404 to such a DELETE is good."""
        lead = method not in _READS
        sent = dict(headers or {})
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        target = path + _text(query)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        check_clear(self.nodes.given, self._token, self._trust)
        failures: dict[Server, str] = {}
        refusal: ClientError | None = None
        uncertain: str | None = None
        pause, most = PAUSE_S
        while True:
            asked = 0.0  # seconds to wait, by those who could not do it now
            hopeless = True  # nobody who was asked can be trusted, which does not change by waiting
            for server in self.nodes.order(loop.time(), lead=lead):
                if self._token and not self._trust.insecure and in_clear(server):
                    continue  # it was learned of
                left = deadline - loop.time()
                if left <= 0:
                    break
                try:
                    response = await self._ask(server, method, target, body, sent, left, read_timeout)
                except _NotSent as error:
                    failures[server] = str(error)
                    self.nodes.failed(server, loop.time())
                    hopeless = hopeless and isinstance(error, _NotTrusted)
                    continue
                except _Unanswered as error:
                    hopeless = False
                    if left > LAST_TRY_S or server not in failures:  # else it had no time to say anything new
                        failures[server] = str(error)
                    self.nodes.failed(server, loop.time())
                    if not may_repeat:
                        raise _unknown(method, path, f"{server} {error}") from None
                    uncertain = f"{server} {error}"
                    continue
                hopeless = False
                self.nodes.answered(server, response.headers, lead=lead)
                try:
                    if 300 <= response.status < 400 and "Location" in response.headers:
                        raise redirected(server, response.status, response.headers["Location"])
                    if response.status < 400 or (uncertain and method == "DELETE" and response.status == 404):
                        self._learn(server)
                        yield response, uncertain is not None
                        return
                    error_seen = await _error(response)
                finally:
                    response.release()
                if error_seen.status == 429 and "Retry-After" in response.headers:
                    refusal, asked = error_seen, max(asked, _retry_after(response.headers))
                    break  # the limit is the cluster's: nobody else would do it
                if error_seen.status == 503 and error_seen.code in _AGAIN:
                    refusal = error_seen
                    if error_seen.code not in _ELSEWHERE:
                        asked = max(asked, _retry_after(response.headers))
                elif error_seen.status == 504 and may_repeat:
                    refusal, uncertain = None, error_seen.detail
                elif error_seen.status == 412 and uncertain:
                    raise _unknown(method, path, f"{uncertain}; since then it is changed, perhaps by that attempt")
                else:
                    raise error_seen
            if hopeless and failures and refusal is None and uncertain is None:
                break
            left = deadline - loop.time()
            wait = max(asked, pause * random.uniform(0.5, 1.0))  # spreads retries; nothing is kept secret by it  # nosec B311
            least = min(LAST_TRY_S, self.timeout / 4) if lead else 0.0
            if refusal is not None and uncertain is None and left - (wait if lead else asked) < least:
                break  # nothing was done: better to say so than to try again and not to know, or to wait in vain
            if left <= 0:
                break
            await asyncio.sleep(min(left, wait))
            pause = min(most, pause * 2)
        if uncertain and lead:
            raise _unknown(method, path, uncertain)
        raise refusal or _unreachable(failures, self.timeout)

    async def _ask(
        self,
        server: Server,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        left: float,
        read_timeout: float | None,
    ) -> aiohttp.ClientResponse:
        """`left`: seconds until the head of the answer has to be there. Raises _NotSent, _Unanswered."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=min(left, CONNECT_TIMEOUT_S), sock_read=read_timeout)
        try:
            async with asyncio.timeout(left):
                tls = True if server.scheme == "http" else await self._tls()
                return await self._http().request(
                    method,
                    f"{server}{target}",
                    data=body,
                    headers=headers,
                    timeout=limits,
                    allow_redirects=False,
                    ssl=tls,
                )
        except aiohttp.ClientSSLError as error:
            raise _NotTrusted(await asyncio.to_thread(self._trust.explain, _of_tls(error), server)) from None
        except aiohttp.ClientConnectorError as error:
            raise _NotSent(error.strerror or "cannot be connected to") from None
        except aiohttp.ConnectionTimeoutError:
            raise _NotSent("does not respond") from None
        except TimeoutError:
            raise _Unanswered(f"did not answer within {left:.3g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            if is_of_certificate(found := _of_tls(error)):
                raise _NotTrusted(self._trust.explain(found, server)) from None
            hint = "" if self.nodes.knows(server) else self._trust.hint(server)
            raise _Unanswered(f"broke the connection: {error or type(error).__name__}{hint}") from None

    async def _tls(self) -> ssl.SSLContext:
        """As the files are now, which are looked at every few seconds. Raises ClientError "untrusted"."""
        shared = self._shared
        now = asyncio.get_running_loop().time()
        if shared.tls is None or now >= shared.tls_looked + FILES_EVERY_S:
            shared.tls_looked = now
            marks = self._trust.marks()
            if marks != shared.tls_marks or shared.tls is None:
                try:
                    shared.tls, shared.tls_marks = await asyncio.to_thread(self._trust.context), marks
                except ClientError:
                    if shared.tls is None:
                        raise  # else half of the files may be new: the old ones go on
        return shared.tls

    def _http(self) -> aiohttp.ClientSession:
        shared = self._shared
        if shared.closed:
            raise RuntimeError("the client is closed")
        if shared.session is None:
            shared.session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX) if self._connector is None else self._connector(),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            # It would send a DELETE or PUT again by itself, and not say so; that has to be known here.
            shared.session._retry_connection = False
        return shared.session

    # ------------------------------------------------------------ who leads

    def _learn(self, server: Server) -> None:
        """Where the leader and the others are, from a node that has just answered; beside what is going on."""
        shared = self._shared
        now = asyncio.get_running_loop().time()
        if self.nodes.wants_to_learn(now) and (shared.learning is None or shared.learning.done()):
            shared.learning = asyncio.create_task(self._ask_for_nodes(server), name="raftsched client: nodes")

    async def _ask_for_nodes(self, server: Server) -> None:
        try:
            response = await self._ask(server, "GET", "/v1/cluster", None, {}, CONNECT_TIMEOUT_S, CONNECT_TIMEOUT_S)
            async with response:
                if response.status == 200:
                    self.nodes.learn(Answer(200, {}, await response.read()).decoded(ClusterView))
        except (_NotSent, _Unanswered, ClientError, aiohttp.ClientError, TimeoutError, OSError):
            pass  # it is asked for again when the next answer comes


async def _error(response: aiohttp.ClientResponse) -> ClientError:
    try:
        raw = await response.content.read(ERROR_MAX) if response.content_length is None else await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError):
        raw = b""
    return error_of(response.status, response.reason or "", raw)


def items(kind: type[_T], page: Page) -> list[_T]:
    """Those of one page, decoded."""
    decode = msgspec.json.Decoder(kind).decode
    return [decode(raw) for raw in page.items]


def _of_tls(error: BaseException) -> Exception:
    """What is at the bottom of an error, when that is one of TLS; else the error."""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            break
        inner = getattr(seen, "certificate_error", None) or getattr(seen, "os_error", None)
        for one in (inner, seen):
            if isinstance(one, Exception) and is_of_tls(one):
                return one
        seen = seen.__cause__ or seen.__context__
    return error if isinstance(error, Exception) else Exception(str(error))


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds (RFC 9110, section 10.2.3); 0 when it does not say, or says a date, as no node does."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0


def condition(revision: int | None) -> dict[str, str]:
    """Headers: only while it is this revision."""
    return {} if revision is None else {"If-Match": f'"{revision}"'}


def _index(headers: Mapping[str, str]) -> int:
    text = headers.get("Raftsched-Index", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0


def _text(query: Query | None) -> str:
    """None is left out, a list is repeated, booleans and times are as JSON writes them."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, bool):
                pairs.append((name, str(one).lower()))
            elif isinstance(one, datetime):
                pairs.append((name, one.isoformat()))
            elif one is not None:
                pairs.append((name, str(one)))
    return f"?{urlencode(pairs)}" if pairs else ""


def _unreachable(failures: Mapping[Server, str], timeout: float) -> ClientError:
    tried = "; ".join(f"{server} {why}" for server, why in failures.items())
    return UnavailableError("unreachable", f"No node answered within {timeout:g} s: {tried or 'none was asked'}.")


def _unknown(method: str, path: str, why: str) -> ClientError:
    return UnknownOutcomeError("unknown-outcome", f"It is not known whether {method} {path} was done: {why}.")
