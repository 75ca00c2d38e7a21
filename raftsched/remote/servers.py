"""Nodes as a remote worker reaches them: by HTTP, over connections that stay open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from raftsched.client.errors import ClientError, error_of
from raftsched.client.nodes import Nodes
from raftsched.client.servers import Server as Address
from raftsched.client.transport import Answer, Transport
from raftsched.client.trust import SYSTEM, Trust, check_clear
from raftsched.client.wire import query_text, retry_after, segment
from raftsched.remote.frames import FRAMES
from raftsched.remote.ports import NoAnswer, Refused, SessionOver, WrongOffset
from raftsched.remote.protocol import CloseIn, OpenIn, OpenOut, PollIn, PollOut, UploadOut
from raftsched.remote.session_secrets import HEADER, PREFIX

PATH = "/v1/worker-sessions"
TIMEOUT_S = 60.0  # the agent gives up before
_ELSEWHERE = frozenset({408, 500, 502, 503, 504})  # another node may answer

_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode


class _Offset(msgspec.Struct):
    offset: int


class HttpServer:
    """One of them; see ports.Server."""

    def __init__(self, address: Address, transport: Transport) -> None:
        self.name = str(address)
        self._address = address
        self._transport = transport

    async def open(self, request: OpenIn) -> OpenOut:
        return _decoded(await self._send("POST", PATH, _encode(request)), OpenOut)

    async def poll(self, session: str, request: PollIn) -> PollOut:
        answer = await self._send("POST", f"{_address(session)}/poll", _encode(request), session)
        return _decoded(answer, PollOut)

    async def close(self, session: str, request: CloseIn) -> None:
        await self._send("POST", f"{_address(session)}/close", _encode(request), session)

    async def upload(
        self, session: str, token: int, offset: int, data: bytes, stream: str | None = None, *, end: bool = False
    ) -> UploadOut:
        query = {"offset": offset, "stream": stream, "end": True if end else None}
        path = f"{_address(session)}/runs/{token}/output{query_text(query)}"
        kind = "application/octet-stream" if stream is not None else FRAMES
        return _decoded(await self._send("PUT", path, data, session, kind), UploadOut)

    async def _send(
        self, method: str, path: str, body: bytes, session: str = "", kind: str = "application/json"
    ) -> Answer:
        headers = {"Content-Type": kind}
        if session:
            headers[HEADER] = session
        try:
            answer = await self._transport.ask(self._address, method, path, body, headers)
        except ClientError as error:
            # It speaks of all the nodes that a client has asked, and of its own patience; here it was one.
            raise NoAnswer(error.detail.rpartition(f" {self._address} ")[2].rstrip(".")) from None
        if answer.status < 300:
            return answer
        refusal = error_of(answer.status, "", answer.body)
        if answer.status in _ELSEWHERE:
            raise NoAnswer(refusal.detail)
        if answer.status == 410:
            raise SessionOver
        if refusal.code == "wrong-offset":
            raise WrongOffset(_decoded(answer, _Offset).offset)
        raise Refused(refusal.code, refusal.detail, answer.status, retry_after(answer.headers))


def _address(session: str) -> str:
    """Returns the address of a session, in which nothing of it is secret: but for one of a cluster in which nodes of
    before 0.3.0 may be, which look for the secret there."""
    number, _, secret = session.partition("-")
    return f"{PATH}/{segment(number if secret.startswith(PREFIX) else session)}"


def _decoded(answer: Answer, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise NoAnswer(f"its answer cannot be read: {error}") from None


def http_servers(
    addresses: Sequence[Address], token: str | None = None, trust: Trust = SYSTEM
) -> tuple[list[HttpServer], Transport]:
    """Returns the nodes at these addresses, and what to close in the end. Raises ClientError "insecure" when the token
    would go to one of them unencrypted."""
    check_clear(addresses, token, trust)
    transport = Transport(Nodes(addresses, discover=False), timeout=TIMEOUT_S, token=token, trust=trust)
    return [HttpServer(address, transport) for address in addresses], transport
