"""The secret of a node that lies in its data directory: whoever may read that is let in as an admin, by this node.

It is how one gets back in when the last token is lost. A node makes a new one at each start.
"""

from __future__ import annotations

import os
import secrets
from hashlib import sha256
from pathlib import Path

FILE = "local.token"
PREFIX = "rl_"
SECRET_BYTES = 32


class LocalToken:
    def __init__(self) -> None:
        self.secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)

    @property
    def digest(self) -> bytes:
        return sha256(self.secret.encode()).digest()

    def write(self, data: Path) -> None:
        """For its owner's eyes only, and whole or not at all. Raises OSError."""
        beside = data / f".{FILE}.{os.getpid()}"
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.secret + "\n")
        beside.replace(data / FILE)


def read_local_token(data: Path) -> str:
    """Raises OSError."""
    return (data / FILE).read_text().strip()
