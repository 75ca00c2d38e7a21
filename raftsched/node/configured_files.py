"""The files that a node's configuration names: those that it reads again while it runs, and the keys of the cluster,
which a restart takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftsched.api.http.tls import Certificates, PeerTrust, certificates_of, peer_trust
from raftsched.config.node import NodeConfig
from raftsched.config.shipping import read_credentials
from raftsched.config.values import ConfigError
from raftsched.errors import StartupError
from raftsched.raft.transport import tls
from raftsched.security.keyring import Keyring, own_key, read_keyring
from raftsched.system.clock import Clock

if TYPE_CHECKING:
    pass

log = logging.getLogger("raftsched.node")


class NodeFiles:
    """The files of one node."""

    def __init__(self, config: NodeConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.trust: PeerTrust = peer_trust(config)
        self.wire: tls.MutualTls | None = None
        self.keys = Keyring()
        self.certificates: Certificates | None = None
        self.others: list[Callable[[], bool]] = []  # read the files of other parts again; True: something is new

    def make_wire(self) -> tls.MutualTls | None:
        """Returns what seals connections with other nodes by certificates; None: no certificates are named. Raises
        StartupError."""
        self.wire = tls.configured(self._config, self._clock, log.warning)
        return self.wire

    def make_certificates(self) -> Certificates | None:
        """Returns the certificates of the API; None: it speaks plain HTTP. Raises StartupError."""
        self.certificates = certificates_of(self._config, self._clock)
        return self.certificates

    def read_keys(self) -> Keyring:
        """Returns the keys that the configuration names, or the node's own, which it makes when there is none. Raises
        StartupError."""
        self.keys = cluster_keys(self._config)
        return self.keys

    async def read_again(self) -> int:
        """Reads all files again, also those that seem to be as they were; what is new in them, and what cannot be used,
        is said in the log. Returns how many hold something new, or something that cannot be used."""
        new = 0
        if self.wire is not None:
            new += self.wire.reload_if_changed(again=True) or self.wire.wrong  # in the event loop, as by itself
        reads = [*self.others]
        if self.certificates is not None:
            certificates = self.certificates
            reads.insert(0, lambda: certificates.reload_if_changed(again=True) or certificates.wrong)
        for read in [*reads, self.trust.reload_if_changed, self._look_at_keys]:
            new += await asyncio.to_thread(read)
        return new

    def _look_at_keys(self) -> bool:
        """Says that the file of the cluster's keys is another one: `raftsched keys` and the runbook say how keys are
        changed, one node after the other."""
        file = self._config.cluster_key_file
        if file is None:
            return False
        try:
            same = read_keyring(file) == self.keys
        except StartupError as error:
            log.warning("%s The keys that were read before stay in use; a start would fail.", error.detail)
            return True
        if not same:
            log.warning("the keys in %s have changed; this node takes them when it is started again", file)
        return not same


def cluster_keys(config: NodeConfig) -> Keyring:
    """Returns the keys that the configuration names, or the node's own, which it makes when there is none. Raises
    StartupError."""
    if config.insecure_raft:
        log.warning(
            "--insecure-raft: without a cluster key every user of this machine can act as a node of the cluster, and so"
            " as its admin; secrets are kept as they are"
        )
        return Keyring()
    return own_key(config.data) if config.cluster_key_file is None else read_keyring(config.cluster_key_file)


def look_at_credentials(config: NodeConfig) -> Callable[[], bool]:
    """Returns what says that the credentials of the receiver of output cannot be read. They are read each time that
    they are shown, so that nothing has to be done about new ones."""
    ship = config.output_ship
    file = None if ship is None else ship.credentials
    seen = [None if file is None else read_credentials(file)]

    def look() -> bool:
        if file is None:
            return False
        try:
            found = read_credentials(file)
        except ConfigError as error:
            log.warning("%s; nothing is shipped until that is mended", error)
            return True
        if found == seen[0]:
            return False
        seen[0] = found
        log.info("output_ship_credentials: the credentials in %s are used from now on", file)
        return True

    return look
