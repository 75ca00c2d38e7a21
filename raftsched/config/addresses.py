"""Where somebody listens: host and port."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than localhost counts as reachable."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def wildcard(self) -> bool:
        """Every interface: right to listen on, useless to others."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False
