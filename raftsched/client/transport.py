"""The asyncio client's requests: sends them by aiohttp, as `policy.py` decides.

Every request has one deadline, within which the servers are asked again and again, with growing pauses. A request that
may not be repeated and is not answered ends as UnknownOutcomeError.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import random
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import msgspec

from raftsched.client.encoding import encode
from raftsched.client.errors import ClientError, NotRaftschedError, UnavailableError, UnknownOutcomeError, error_of
from raftsched.client.generated.cluster import ClusterView
from raftsched.client.models import Page
from raftsched.client.policy import Exchange, Rules, Verdict
from raftsched.client.server_order import Nodes
from raftsched.client.servers import Server
from raftsched.client.strangers import is_named, is_strange, not_http, of_proxy, sender_of
from raftsched.client.token_file import TokenFile
from raftsched.client.trust import SYSTEM, Trust, check_clear, in_clear, is_of_certificate, is_of_tls
from raftsched.client.wire import log_index, own_key, query_text
from raftsched.surface.plain import cluster
from raftsched.version import __version__

CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 30.0
FILES_EVERY_S = 5.0  # those of TLS are looked at
CONNECTIONS_MAX = 100  # open at a time; requests beyond that wait for one
ERROR_MAX = 1 << 20  # bytes of an error's body that are read

log = logging.getLogger(__name__)

_T = TypeVar("_T")
Query = Mapping[str, Any]
Connector = Callable[[], aiohttp.BaseConnector]  # makes one, in the event loop where it is used


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    server: str = ""  # whose it is; empty: nobody asks

    def decoded(self, kind: type[_T]) -> _T:
        """Returns the decoded body. Raises ClientError "internal" for a body that no node sends, NotRaftschedError for
        one where nothing says that a node has sent it."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, ValueError) as error:
            if self.server and not is_named(self.headers):
                told = f"{self.server} {is_strange(self.status, self.headers)} Its answer cannot be read: {error}"
                raise NotRaftschedError("not-raftsched", told) from None
            raise ClientError("internal", f"The answer cannot be read: {error}", status=self.status) from None


class _NotSent(Exception):
    """This server got nothing of the request."""


class _NotTrusted(_NotSent):
    """Nor would it later: certificates are not what they should be."""


class _Strange(_NotSent):
    """This server is no node."""


class _Unanswered(Exception):
    """This server got (some of) the request, and no answer came back."""


@dataclass(slots=True, weakref_slot=True)
class _Shared:
    """The state that a transport shares with those that `within` made of it."""

    index: int = 0
    session: aiohttp.ClientSession | None = None
    learning: asyncio.Task[None] | None = None
    closed: bool = False
    tls: ssl.SSLContext | None = None
    tls_marks: tuple[object, ...] = ()  # of the files that it is made of,
    tls_looked: float = float("-inf")  # which were looked at then
    token_looked: float = float("-inf")  # the same of the file with the token


class Transport:
    """The requests of one client. It belongs to one event loop."""

    def __init__(
        self,
        nodes: Nodes,
        *,
        timeout: float = TIMEOUT_S,
        connector: Connector | None = None,
        token: str | TokenFile | None = None,
        trust: Trust = SYSTEM,
    ) -> None:
        """`timeout`: seconds for a request, with all its repeats. `connector`: how nodes are reached; None: by TCP.
        `token`: sent with each request; or the file where it is. `trust`: who is spoken to by TLS."""
        self._token = token
        self._trust = trust
        self._headers = {"Accept": "application/json, */*", "User-Agent": f"raftsched-python/{__version__}"}
        if isinstance(token, str) and token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.nodes = nodes
        self._connector = connector
        self.timeout = timeout
        self._shared = _Shared()

    def within(self, timeout: float) -> Transport:
        """Returns the same transport with another timeout. Connections and knowledge of the cluster are shared."""
        other = copy.copy(self)
        other.timeout = timeout
        return other

    @property
    def index(self) -> int:
        """The index of the log up to which this client's own writes reach."""
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
        """Decodes the answer of a GET. `own`: waits until the answering node has seen this client's earlier writes."""
        if own and self.index:
            query = {**(query or {}), "min_index": self.index}
        try:
            return (await self.send("GET", path, query=query)).decoded(kind)
        except ClientError as error:
            if error.code == "behind":
                self.index = 0  # the cluster may have been restored from a backup: next time, as it is
            raise

    async def post(self, kind: type[_T], path: str, body: Any = None, *, query: Query | None = None) -> _T:
        """Decodes the answer of a POST, which gets an Idempotency-Key of its own."""
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
        same as doing it once; None: as the method says."""
        try:
            return await self._sent(method, path, query, body, headers, repeatable)
        except ClientError as error:  # the caller's line counts, and not how it was found out
            raise error.with_traceback(None) from None

    async def _sent(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        repeatable: bool | None,
    ) -> Answer:
        exchange = self._exchange(method, path, repeatable)
        while True:
            response, verdict = await self._head(
                exchange, method, path + query_text(query), body, headers, self.timeout
            )
            try:
                if verdict == "done before":
                    return Answer(204, response.headers, b"")
                raw = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                exchange.unanswered(f"broke the connection during its answer: {error}", _now())
                continue
            finally:
                response.release()
            if exchange.writes:
                self.index = max(self.index, log_index(response.headers))
            return Answer(response.status, response.headers, raw, str(exchange.server))

    async def ask(
        self,
        server: Server,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request to this server, once, and returns the answer, whatever its status. Raises ClientError:
        "unreachable" when nothing was sent, "unknown-outcome" when no answer came, "redirected"."""
        check_clear((server,), self._token, self._trust)
        sent = dict(headers or {})
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        try:
            response = await self._ask(server, method, path, body, sent, self.timeout, self.timeout)
        except _NotSent as error:
            raise _unreachable({server: str(error)}, self.timeout) from None
        except _Unanswered as error:
            raise _unknown(method, path, f"{server} {error}", None) from None
        try:
            if 300 <= response.status < 400:  # whoever is followed gets the token
                raise ClientError("redirected", f"{server} redirects elsewhere; say the address that is meant")
            return Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unknown(method, path, f"{server} broke the connection during its answer: {error}", None) from None
        finally:
            response.release()

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query | None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Gives the answer of a GET whose body comes bit by bit, however long that takes. Breaking off raises aiohttp's
        errors."""
        exchange = self._exchange("GET", path, True)
        response, _ = await self._head(exchange, "GET", path + query_text(query), None, headers, None)
        try:
            yield response
        finally:
            response.release()

    def _exchange(self, method: str, path: str, repeatable: bool | None) -> Exchange:
        check_clear(self.nodes.given, self._token, self._trust)
        rules = Rules(self.timeout, True, _unknown, _unreachable, random=random.random)
        may_ask = None if self._trust.insecure or not self._token else _sealed
        return Exchange(rules, self.nodes, method, path, now=_now(), repeatable=repeatable, may_ask=may_ask)

    async def _head(
        self,
        exchange: Exchange,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        read_timeout: float | None,
    ) -> tuple[aiohttp.ClientResponse, Verdict]:
        """Returns the first answer that is no error, with its head read. Raises ClientError."""
        sent = dict(headers or {})
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        while True:
            server, seconds = exchange.next(_now())
            if server is None:
                await asyncio.sleep(seconds)
                continue
            try:
                response = await self._ask(server, method, target, body, sent, seconds, read_timeout)
            except _Strange as error:
                exchange.strange(str(error), _now())
                continue
            except _NotSent as error:
                exchange.not_sent(str(error), _now(), untrusted=isinstance(error, _NotTrusted))
                continue
            except _Unanswered as error:
                exchange.unanswered(str(error), _now())
                continue
            if sender_of(response.status, response.headers) == "stranger":
                response.close()  # nobody reads what it says
                exchange.strange(is_strange(response.status, response.headers), _now())
                continue
            verdict = None
            try:
                verdict = exchange.answered(response.status, response.headers)
                if verdict == "error":
                    exchange.refused(await _error(response, server), response.headers)
                    continue
                self._learn(server)
                return response, verdict
            finally:
                if verdict is None or verdict == "error":
                    response.release()

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
        file = self._token if isinstance(self._token, TokenFile) else None
        try:
            async with asyncio.timeout(left):
                tls = True if server.scheme == "http" else await self._tls()
                while True:
                    if file is not None:
                        await self._look_at_token(file)
                        headers = {**headers, "Authorization": f"Bearer {file.token}"}
                    response = await self._http().request(
                        method,
                        f"{server}{target}",
                        data=body,
                        headers=headers,
                        timeout=limits,
                        allow_redirects=False,
                        ssl=tls,
                    )
                    # It was refused for its token, and another one may be there by now: nothing was done.
                    if response.status != 401 or file is None:
                        return response
                    if not await asyncio.to_thread(file.reload_if_changed, again=True):
                        return response
                    response.release()
        except aiohttp.ClientSSLError as error:
            raise _NotTrusted(await asyncio.to_thread(self._trust.explain, _of_tls(error), server)) from None
        except aiohttp.ClientConnectorError as error:
            raise _NotSent(error.strerror or "cannot be connected to") from None
        except aiohttp.ConnectionTimeoutError:
            raise _NotSent("does not respond") from None
        except TimeoutError:
            raise _Unanswered(f"did not answer within {left:.3g} s") from None
        except aiohttp.ClientResponseError:  # the head of the answer is none
            raise _Strange(not_http(b"")) from None
        except (aiohttp.ClientError, OSError) as error:
            if is_of_certificate(found := _of_tls(error)):
                raise _NotTrusted(self._trust.explain(found, server)) from None
            hint = "" if self.nodes.knows(server) else self._trust.hint(server)
            raise _Unanswered(f"broke the connection: {error or type(error).__name__}{hint}") from None

    async def _look_at_token(self, file: TokenFile) -> None:
        """Reads it if it has changed, every few seconds."""
        now = asyncio.get_running_loop().time()
        if now >= self._shared.token_looked + FILES_EVERY_S:
            self._shared.token_looked = now
            await asyncio.to_thread(file.reload_if_changed)

    async def _tls(self) -> ssl.SSLContext:
        """Returns a context of the current files, which are looked at every few seconds. Raises ClientError
        "untrusted"."""
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

    async def read_files_again(self) -> int:
        """Reads the files of TLS again, and says in the log what is new. Returns 1 when something is. What cannot be
        used is said, and what was read before stays in use."""
        shared, files = self._shared, [file for file in self._trust[:3] if file is not None]
        if not files:
            return 0
        marks = self._trust.marks()
        try:
            context = await asyncio.to_thread(self._trust.context)
        except ClientError as error:
            log.warning("%s; what was read before stays in use", error.detail)
            return 1
        if marks == shared.tls_marks or shared.tls is None:
            return 0
        shared.tls, shared.tls_marks = context, marks
        log.info("%s: read again, for new connections", ", ".join(files))
        return 1

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
            weakref.finalize(shared, _abandon, shared.session, os.getpid())
            # It would send a DELETE or PUT again by itself, and not say so; that has to be known here.
            shared.session._retry_connection = False
        return shared.session

    # ------------------------------------------------------------ who leads

    def _learn(self, server: Server) -> None:
        """Asks a node that has just answered for the addresses of the others, beside what is going on."""
        shared = self._shared
        now = asyncio.get_running_loop().time()
        if self.nodes.wants_to_learn(now) and (shared.learning is None or shared.learning.done()):
            shared.learning = asyncio.create_task(self._ask_for_nodes(server), name="raftsched client: nodes")

    async def _ask_for_nodes(self, server: Server) -> None:
        try:
            response = await self._ask(server, "GET", cluster.STATUS, None, {}, CONNECT_TIMEOUT_S, CONNECT_TIMEOUT_S)
            async with response:
                if response.status == 200:
                    self.nodes.learn(Answer(200, {}, await response.read()).decoded(ClusterView))
        except (_NotSent, _Unanswered, ClientError, aiohttp.ClientError, TimeoutError, OSError):
            pass  # it is asked for again when the next answer comes


def _abandon(session: aiohttp.ClientSession, pid: int) -> None:
    """Closes the connections of a client that nobody closed, without a word: its event loop may be gone. In a process
    that was forked off they are its parent's."""
    connector = session.connector
    if connector is None or session.closed or os.getpid() != pid:
        return
    session.detach()
    with suppress(Exception):  # of an event loop that is closed, or at work in another thread
        connector._close()


async def _error(response: aiohttp.ClientResponse, server: Server) -> ClientError:
    try:
        raw = await response.content.read(ERROR_MAX) if response.content_length is None else await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError):
        raw = b""
    status, reason, headers = response.status, response.reason or "", response.headers
    said = "" if sender_of(status, headers) == "raftsched" else of_proxy(server, status, reason, headers)
    return error_of(status, reason, raw, said)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _sealed(server: Server) -> bool:
    return not in_clear(server)


def items(kind: type[_T], page: Page) -> list[_T]:
    """Returns the decoded items of one page."""
    decode = msgspec.json.Decoder(kind).decode
    return [decode(raw) for raw in page.items]


def _of_tls(error: BaseException) -> Exception:
    """Returns the TLS error at the bottom of an error; the error itself when there is none."""
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


def _unreachable(failures: Mapping[Server, str], timeout: float) -> ClientError:
    tried = "; ".join(f"{server} {why}" for server, why in failures.items())
    return UnavailableError("unreachable", f"No node answered within {timeout:g} s: {tried or 'none was asked'}.")


def _unknown(method: str, path: str, why: str, _: ClientError | None) -> ClientError:
    return UnknownOutcomeError("unknown-outcome", f"It is not known whether {method} {path} was done: {why}.")
