"""Calls to the APIs of other nodes: how they are addressed, and whom this node takes for one of them.

A node announces where its API is as `https://host:port` when it speaks TLS there, else as `host:port`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl

from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem

log = logging.getLogger(__name__)


def url_of(address: str, path: str) -> str:
    """`address`: as the node announced it."""
    return f"{address if '://' in address else f'http://{address}'}{path}"


async def trust(ctx: ApiContext, address: str) -> ssl.SSLContext | bool:
    """Returns the `ssl` argument of aiohttp for a call to this address. Raises Problem output-unavailable: the files
    with the trusted authorities, or with this node's certificate, cannot be used."""
    if ctx.security.peer_trust is None or not address.startswith("https://"):
        return True
    try:
        return await asyncio.to_thread(ctx.security.peer_trust.context)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        log.warning("calls to other nodes: %s", _unusable(error))
        detail = "The certificates with which this node calls others cannot be used; its log says more."
        raise Problem("output-unavailable", detail) from None


def _unusable(error: OSError | ValueError) -> str:
    """Returns what is wrong with the files of certificates, and which options name them."""
    own = "--raft-cert and --raft-key, or without them --tls-cert and --tls-key"
    if "KEY_VALUES_MISMATCH" in str(error):
        return f"the key that this node shows itself with is not that of its certificate ({own}): put both there"
    return (
        f"the files of authorities (--tls-ca, --raft-ca) or of this node's certificate ({own}) cannot be used: {error}"
    )


def why_not(error: Exception) -> str:
    """Returns " " and the reason of a failed call when it is one of TLS, else an empty text."""
    if isinstance(error, ssl.SSLError) or isinstance(getattr(error, "certificate_error", None), Exception):
        reason = getattr(error, "certificate_error", error)
        return (
            f" Its certificate is not trusted here ({getattr(reason, 'verify_message', '') or reason}); see --tls-ca."
        )
    return ""
