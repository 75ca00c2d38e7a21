"""The certificates of `raftsched dev --tls`: an authority in the cluster's directory, and one for each node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from raftsched.cli.dev.state import CA_FILE
from raftsched.errors import StartupError
from raftsched.security.files import write_private

HOSTS = ("127.0.0.1", "::1", "localhost")
CLUSTER = "dev"


def flags_of(directory: Path, node: str) -> list[str]:
    """Returns the flags with which a node is started."""
    where = (directory / CA_FILE).parent
    return [f"--tls-cert={where / node}.pem", f"--tls-key={where / node}.key", f"--tls-ca={directory / CA_FILE}"]


def make_certificates(directory: Path, nodes: Sequence[str], now_ms: int) -> None:
    """The authority is made once, for whoever trusts it already; nodes get new certificates at each start. Raises
    StartupError."""
    from raftsched.security.certificates import Pair, make_ca, make_node

    ca_file = directory / CA_FILE
    ca_key = ca_file.with_suffix(".key")
    try:
        ca_file.parent.mkdir(mode=0o700, exist_ok=True)
        if not ca_file.exists():
            ca = make_ca(CLUSTER, now_ms)
            write_private(ca_key, ca.key)
            write_private(ca_file, ca.certificate)
        ca = Pair(ca_file.read_bytes(), ca_key.read_bytes())
        for node in nodes:
            made = make_node(ca, CLUSTER, node, HOSTS, now_ms)
            write_private(ca_file.with_name(f"{node}.key"), made.key)
            write_private(ca_file.with_name(f"{node}.pem"), made.certificate)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise StartupError(f"cannot keep certificates in {ca_file.parent}: {why}") from None
    except ValueError as error:
        raise StartupError(f"{ca_file} cannot be used: {error}; remove {ca_file.parent} for new ones") from None
