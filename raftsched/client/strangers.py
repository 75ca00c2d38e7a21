"""Tells nodes, and proxies before them, from servers that are not raftsched: by what answers say of who sent them.

Nodes name themselves in each answer (`Server`, `Raftsched-...`), and their errors are problem+json. A proxy before them
may replace `Server`, and answers for itself when it reaches no node or lets nobody through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

_PROBLEM = "application/problem+json"
_NAME_MAX = 80  # characters of what a server calls itself
# What a proxy says for itself. Any other error of somebody who does not name raftsched is none of a node.
_OF_PROXIES = frozenset({401, 403, 407, 408, 413, 414, 429, 431, 500, 502, 503, 504})
# And all from here on, where each has numbers of its own for nodes that did not answer (524, 561): what was asked for
# may have been done then.
_OWN = 506

Sender = Literal["raftsched", "proxy", "stranger"]


def sender_of(status: int, headers: Mapping[str, str]) -> Sender:
    """Returns who has sent an answer, as far as its head tells. "proxy": perhaps, or a stranger that fails."""
    if is_named(headers):
        return "raftsched"
    if status < 300:
        return "stranger" if _kind(headers) == "text/html" else "raftsched"  # what a proxy has left of it
    if status < 400:
        return "raftsched" if "location" in headers else "stranger"  # it is told where it leads
    return "proxy" if status in _OF_PROXIES or status >= _OWN else "stranger"


def is_named(headers: Mapping[str, str]) -> bool:
    """Returns whether something in the head says that a node has sent the answer."""
    return (
        _kind(headers) == _PROBLEM
        or headers.get("server", "").lower() == "raftsched"
        or any(name.lower().startswith("raftsched-") for name in headers)
    )


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def named(headers: Mapping[str, str]) -> str:
    """Returns how a server names itself, in words, " as nginx/1.22"; empty: it does not."""
    name = "".join(c for c in headers.get("server", "")[:_NAME_MAX] if c.isprintable()).strip()
    return f" as {name}" if name else ""


def is_strange(status: int, headers: Mapping[str, str]) -> str:
    """Returns what is to be said of a server that is not raftsched."""
    return f"is not raftsched (answers{named(headers)} with {status}); is the address right?"


def not_http(begins: bytes) -> str:
    """Returns what is to be said of a server whose answer is no HTTP/1.1, by its first bytes."""
    if begins[:2] in (b"\x15\x03", b"\x16\x03"):  # a record of TLS (RFC 8446, section 5.1)
        return "speaks TLS; say https://"
    return "does not speak HTTP/1.1, so it is not raftsched; is the address right?"


def of_proxy(server: object, status: int, reason: str, headers: Mapping[str, str]) -> str:
    """Returns what is to be said of an error that is perhaps of a proxy before the nodes."""
    said = f"{server} answers{named(headers)}: {status} {reason}".rstrip()
    return f"{said}; that is not raftsched's: is it a proxy's?"
