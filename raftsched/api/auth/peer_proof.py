"""Calls from node to node: how one shows the other that it is one of the cluster's.

A header says who calls whom, when, and once: id of the caller, time, nonce, and an HMAC-SHA256 over these, the node
that is called, method, path and query. Its key comes of the cluster's (HKDF, "peer") and is kept nowhere; a
cluster without a key has a random one in its tables instead. What was said is taken for ten seconds, by the node that
it names, once.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from hashlib import sha256

from raftsched import names

PEER = "Raftsched-Peer"
PURPOSE = "peer"  # of the key, see keyring.derive
SPAN_MS = 10_000  # between the clocks of two nodes and on the way, at most
SEEN_MAX = 65_536  # calls that are remembered, 2,000 a second and more; above nobody is let in as a node
_NONCE_BYTES = 16
_SAID = re.compile(
    rf"(?P<caller>{names.NODE.regex}) (?P<at>[0-9]{{1,15}}) (?P<nonce>[0-9a-f]{{32}}) (?P<mac>[0-9a-f]{{64}})", re.ASCII
)


def peer_said(secret: bytes, caller: str, called: str, target: str, now_ms: int, method: str = "GET") -> str:
    """The header. `target`: path and query, as they go over the wire."""
    nonce = secrets.token_hex(_NONCE_BYTES)
    return f"{caller} {now_ms} {nonce} {_mac(secret, caller, called, str(now_ms), nonce, method, target)}"


def _mac(secret: bytes, *parts: str) -> str:
    return hmac.new(secret, "\n".join(parts).encode("utf-8", "surrogateescape"), sha256).hexdigest()


class Seen:
    """The calls of other nodes that this one has accepted, so that none is accepted twice."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}  # nonce -> when it is too old anyway, by a clock that only goes forward

    def caller(
        self, keys: Sequence[bytes], header: str, called: str, method: str, target: str, now_ms: int, now_s: float
    ) -> str | None:
        """The id of the node that said this to the node `called`; None: that was no node, or it was said before."""
        match = _SAID.fullmatch(header)
        if match is None or abs(now_ms - int(match["at"])) > SPAN_MS:
            return None
        caller, at, nonce, mac = match.group("caller", "at", "nonce", "mac")
        if not any(hmac.compare_digest(_mac(key, caller, called, at, nonce, method, target), mac) for key in keys):
            return None
        for old in list(self._until):
            if self._until[old] > now_s:
                break
            del self._until[old]
        if nonce in self._until or len(self._until) >= SEEN_MAX:
            return None
        self._until[nonce] = now_s + 2 * SPAN_MS / 1000
        return caller
