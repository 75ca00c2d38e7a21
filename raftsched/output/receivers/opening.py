"""Opens the receiver that a configuration names."""

from __future__ import annotations

import sys

from raftsched.config.shipping import ShipConfig
from raftsched.errors import StartupError
from raftsched.output.receivers.loki import Loki
from raftsched.output.receivers.shipper import Receiver
from raftsched.output.receivers.standard_output import StandardOutput
from raftsched.output.receivers.syslog import Datagrams, Stream
from raftsched.output.receivers.trust import Trust


def receiver_of(config: ShipConfig, node_id: str, host: str, agent: str) -> Receiver:
    """Makes it; nothing is connected yet. `host`: the name of this machine, for syslog; `agent`: of this program.
    Raises StartupError."""
    try:
        if config.kind == "stdout":
            if sys.__stdout__ is None:  # its number is that of the next file which was opened, and may be the log's
                raise StartupError("output_ship is stdout, which is closed; leave it open, or name another place.")
            return StandardOutput(node_id)
        if config.kind == "loki":
            return Loki(config, node_id, agent)
        if config.kind == "unix":
            return Datagrams(config.path, node_id, host)
        assert config.address is not None
        if config.kind == "udp":
            return Datagrams(config.address, node_id, host)
        trust = Trust(config.ca) if config.kind == "tls" else None
        return Stream(config.address, node_id, host, trust)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise StartupError(f"output_ship_ca {config.ca} cannot be used: {why}.") from None
