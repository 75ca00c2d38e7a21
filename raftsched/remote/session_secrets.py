"""The text by which a remote worker speaks for its session: the session's number, "-", and a secret.

The log has no such secret, only a nonce made of it and of whose token opened the session. So who reads a log, a backup
or a proxy's notes cannot speak for a session, and neither can who shows its secret with another token. In a cluster of
a level below SESSIONS_ARE_BOUND (core.levels) the nonce itself is the secret, whoever shows it: nodes of earlier
versions know no other. A session that was opened then stays so.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256

from raftsched.core.levels import SESSIONS_ARE_BOUND
from raftsched.core.rows import SESSIONS
from raftsched.core.rules.executors import is_worker
from raftsched.core.subjects.cluster import Session
from raftsched.core.tables import ReadView
from raftsched.surface.patterns import SESSION, SESSION_PREFIX

SECRET_BYTES = 32
_TEXT = re.compile(SESSION, re.ASCII)


def make_secret(random_bytes: Callable[[int], bytes], level: int) -> str:
    """Returns the secret of a session that is opened in a cluster of this level."""
    if level < SESSIONS_ARE_BOUND:
        return random_bytes(16).hex()
    return SESSION_PREFIX + urlsafe_b64encode(random_bytes(SECRET_BYTES)).rstrip(b"=").decode()


def nonce_of(secret: str, owner: str) -> bytes:
    """Returns the nonce of the session that this owner of a token opened and got this secret for."""
    if not secret.startswith(SESSION_PREFIX):
        return bytes.fromhex(secret)
    return sha256(f"{secret}\0{owner}".encode()).digest()


def parse(text: str) -> tuple[int, str] | None:
    """Returns number and secret; None: no opening was ever answered with such a text."""
    if _TEXT.fullmatch(text) is None:
        return None
    number, _, secret = text.partition("-")
    return int(number), secret


def is_bound(text: str) -> bool:
    """Returns whether the session of this text is its token's: those of clusters below SESSIONS_ARE_BOUND are not."""
    return text.partition("-")[2].startswith(SESSION_PREFIX)


def speaks_for(session: Session, secret: str, owner: str) -> bool:
    """Returns whether this owner of a token may speak for the session with this secret."""
    return hmac.compare_digest(session.nonce, nonce_of(secret, owner))


def session_of(view: ReadView, text: str, owner: str) -> Session | None:
    """Returns the open session of a remote worker by its text and the owner of the token that it comes with; None:
    there is none, or not any more, or it is another's."""
    parsed = parse(text)
    if parsed is None:
        return None
    row = SESSIONS.get(view, parsed[0])
    if row is None or not row.open or not is_worker(row.node):
        return None
    return row if speaks_for(row, parsed[1], owner) else None
