"""A secret in a node's data directory: this node lets in, as an admin, whoever can read it.

It is the way back in when the last token is lost. A node makes a new one at each start.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from pathlib import Path

from raftsched.security.files import write_private
from raftsched.system.regular_files import read_regular

FILE = "local.token"
ADDRESS_FILE = "local.url"  # where the node listens, for who has its secret
PREFIX = "rl_"
SECRET_BYTES = 32


class LocalToken:
    def __init__(self) -> None:
        self.secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)

    @property
    def digest(self) -> bytes:
        return sha256(self.secret.encode()).digest()

    def write(self, data: Path, url: str = "", ca_file: str = "") -> None:
        """Writes the secret for its owner alone, whole or not at all. `url`: of the node's API, on this machine;
        `ca_file`: of the authority that signed its certificate. Raises OSError."""
        write_private(data / ADDRESS_FILE, f"{url}\n{ca_file}".rstrip().encode() + b"\n")
        write_private(data / FILE, self.secret.encode() + b"\n")


def read_local_token(data: Path) -> str:
    """Returns the secret. Raises OSError."""
    return read_regular(data / FILE).decode().strip()


def read_local_url(data: Path) -> tuple[str, str]:
    """Returns the URL at which the node with this directory listened when it started last, and the file of the
    authority that signed its certificate; empty where that is not known."""
    try:
        url, _, ca_file = read_regular(data / ADDRESS_FILE).decode().strip().partition("\n")
    except (OSError, ValueError):
        return "", ""
    return url, ca_file
