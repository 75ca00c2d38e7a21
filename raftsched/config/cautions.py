"""Warns the operator at each start, and of letting strangers in every hour as well."""

from __future__ import annotations

import logging
import os

from raftsched.config.node import NodeConfig
from raftsched.core.rules.allowed import any_variable
from raftsched.system.clock import Clock

log = logging.getLogger("raftsched.node")

EVERY_S = 3_600.0
ROOT = "this node runs as root; give it a user of its own"
JOBS_AS_NODE = (
    "programs of jobs run as the user of this node (--jobs-as-node): who may create a job reads its keys, and is an"
    " admin of the cluster; --run-as default=USER gives them a user of their own"
)
ANY_VARIABLE = (
    "env_allow matches any variable: jobs may set what makes programs run other code, but for those that are never"
    " taken; name them, or a pattern such as APP_*"
)
JOBS_AS_ROOT = "jobs run as root (--run-as): who may create one owns this machine, and the cluster"


class Cautions:
    """The warnings of one node."""

    def __init__(self, config: NodeConfig, clock: Clock, uid: int | None = None) -> None:
        self._config = config
        self._clock = clock
        self._uid = os.getuid() if uid is None else uid
        self._said_at = clock.monotonic()

    def at_start(self, locked: bool, unreadable: int = 0, *, apart: bool = False) -> None:
        """Warns of all. `locked`: no admin exists yet. `unreadable`: secrets sealed with a key that is not here.
        `apart`: all jobs run as others than the node's own user."""
        config = self._config
        if self._uid == 0:
            log.warning(ROOT)
            if "root" in config.runs.run_as.values():
                log.warning(JOBS_AS_ROOT)
        runs = config.runs
        if self._uid and config.http_beyond and config.slots and runs.jobs_as_node and not apart:
            log.warning(JOBS_AS_NODE)  # those of a node that is root are nobody's
        if config.http_beyond and config.tls_cert is None:
            log.warning(
                "http %s is plain: tokens can be read on the way, unless only a proxy with TLS gets there", config.http
            )
        if config.allowed is not None and any_variable(config.allowed):
            log.warning(ANY_VARIABLE)
        if locked:
            log.warning(
                "http %s lets nobody in until there is an admin: raftsched tokens bootstrap --data %s",
                config.advertise_http,
                config.data,
            )
        if unreadable:
            log.warning(
                "%d secrets are sealed with a cluster key that this node does not have: what needs them fails here;"
                " put that key into its key file as well",
                unreadable,
            )
        self._open()

    def warn_again(self) -> None:
        """Warns again of what is due; to be called now and then."""
        now = self._clock.monotonic()
        if now - self._said_at >= EVERY_S:
            self._said_at = now
            self._open()

    def _open(self) -> None:
        config = self._config
        if config.http_beyond and config.open:
            log.warning(
                "http %s is open (--open): while requests need no token whoever reaches it runs programs here",
                config.advertise_http,
            )
