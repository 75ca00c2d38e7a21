"""Nodes as a remote worker reaches them: by HTTP, over connections that stay open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from raftsched.client.errors import ClientError, error_of
from raftsched.client.server_order import Nodes
from raftsched.client.servers import Server as Address
from raftsched.client.strangers import is_strange, sender_of
from raftsched.client.token_file import TokenFile
from raftsched.client.transport import Answer, Transport
from raftsched.client.trust import SYSTEM, Trust, check_clear
from raftsched.client.wire import at, query_text, retry_after
from raftsched.remote.server_port import Failed, NoAnswer, Refused, SessionOver, WrongOffset
from raftsched.remote.session_secrets import is_bound
from raftsched.remote.worker_token import UNAUTHORIZED, WorkerToken
from raftsched.surface.plain import worker_sessions as addresses
from raftsched.surface.worker_sessions import (
    FRAMES,
    SESSION_SECRET,
    BindIn,
    CloseIn,
    PollAnswer,
    PollIn,
    UploadOut,
    WorkerSessionIn,
    WorkerSessionOut,
)

TIMEOUT_S = 60.0  # the worker gives up before
BIND_S = 3.0  # until another node is asked to give a session to another token
GONE = 410
FAULT = 500
_ELSEWHERE = frozenset({408, FAULT, 502, 503, 504})  # another node may answer

_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode


class _Offset(msgspec.Struct):
    offset: int


class HttpServer:
    """One of them; see ports.Server."""

    def __init__(self, address: Address, transport: Transport, token: WorkerToken) -> None:
        self.name = str(address)
        self._address = address
        self._transport = transport
        self._token = token

    async def open(self, request: WorkerSessionIn) -> WorkerSessionOut:
        self._token.incarnation = request.incarnation
        async with self._token.kept() as used:  # the session is its
            answer = await self._ask(used, "POST", addresses.OPEN, _encode(request))
        if answer.status == UNAUTHORIZED and await self._token.renew(str, self.bind, used, again=True):
            async with self._token.kept() as used:
                answer = await self._ask(used, "POST", addresses.OPEN, _encode(request))
        return _decoded(_taken(answer), WorkerSessionOut)

    async def bind(self, session: str, earlier: str, token: str) -> None:
        """Asks for a session of the earlier token to be this one's. Raises NoAnswer, Refused, SessionOver."""
        if not is_bound(session):
            return
        body = _encode(BindIn(secret=earlier, incarnation=self._token.incarnation))
        try:
            async with asyncio.timeout(BIND_S):
                answer = await self._ask(token, "POST", _address(addresses.BIND, session), body, session)
        except TimeoutError:
            raise NoAnswer(f"{self.name} did not answer within {BIND_S:g} s") from None
        _taken(answer)

    async def renew(self, session: Callable[[], str]) -> bool:
        """Goes over to the token that is in the worker's file. Returns True when that is another one than before."""
        return await self._token.renew(session, self.bind, self._token.in_use)

    @property
    def token_waits(self) -> str:
        """The words for the operator where the worker's file holds a token that is not in use; empty: it is."""
        return self._token.waits

    async def poll(self, session: str, request: PollIn) -> PollAnswer:
        answer = await self._send("POST", _address(addresses.POLL, session), _encode(request), session)
        return _decoded(answer, PollAnswer)

    async def close(self, session: str, request: CloseIn) -> None:
        await self._send("POST", _address(addresses.CLOSE, session), _encode(request), session)

    async def upload(
        self, session: str, token: int, offset: int, data: bytes, stream: str | None = None, *, end: bool = False
    ) -> UploadOut:
        query = {"offset": offset, "stream": stream, "end": True if end else None}
        path = _address(addresses.OUTPUT, session, token=str(token)) + query_text(query)
        kind = "application/octet-stream" if stream is not None else FRAMES
        return _decoded(await self._send("PUT", path, data, session, kind), UploadOut)

    async def _send(self, method: str, path: str, body: bytes, session: str, kind: str = "application/json") -> Answer:
        used = await self._token.settled()
        answer = await self._ask(used, method, path, body, session, kind)
        # Its token is not good any more, or the session is that of another one by now.
        if answer.status in (UNAUTHORIZED, GONE) and await self._token.renew(
            lambda: session, self.bind, used, again=True
        ):
            answer = await self._ask(self._token.in_use, method, path, body, session, kind)
        return _taken(answer)

    async def _ask(
        self, token: str | None, method: str, path: str, body: bytes, session: str = "", kind: str = "application/json"
    ) -> Answer:
        headers = {"Content-Type": kind}
        if session:
            headers[SESSION_SECRET] = session
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            answer = await self._transport.ask(self._address, method, path, body, headers)
        except ClientError as error:
            # It speaks of all the nodes that a client has asked, and of its own patience; here it was one.
            raise NoAnswer(error.detail.rpartition(f" {self._address} ")[2].rstrip(".")) from None
        if sender_of(answer.status, answer.headers) == "stranger":
            raise NoAnswer(is_strange(answer.status, answer.headers))
        return answer


def _taken(answer: Answer) -> Answer:
    """Returns the answer. Raises NoAnswer, Refused, SessionOver, WrongOffset."""
    if answer.status < 300:
        return answer
    refusal = error_of(answer.status, "", answer.body)
    if answer.status in _ELSEWHERE:
        raise (Failed if answer.status == FAULT else NoAnswer)(refusal.detail)
    if answer.status == GONE:
        raise SessionOver
    if refusal.code == "wrong-offset":
        raise WrongOffset(_decoded(answer, _Offset).offset)
    raise Refused(refusal.code, refusal.detail, answer.status, retry_after(answer.headers))


def _address(path: str, session: str, **parts: str) -> str:
    """Returns the address of something of a session, in which nothing of it is secret: but for one of a cluster in
    which nodes of before 0.3.0 may be, which look for the secret there."""
    return at(path, session=session.partition("-")[0] if is_bound(session) else session, **parts)


def _decoded(answer: Answer, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise NoAnswer(f"its answer cannot be read: {error}") from None


def http_servers(
    addresses: Sequence[Address], token: str | None = None, trust: Trust = SYSTEM, file: TokenFile | None = None
) -> tuple[list[HttpServer], Transport]:
    """Returns the nodes at these addresses, and what to close in the end. `file`: where the token is from. Raises
    ClientError "insecure" when the token would go to one of them unencrypted."""
    check_clear(addresses, token, trust)
    transport = Transport(Nodes(addresses, discover=False), timeout=TIMEOUT_S, token=token, trust=trust)
    shown = WorkerToken(token, file)
    return [HttpServer(address, transport, shown) for address in addresses], transport
