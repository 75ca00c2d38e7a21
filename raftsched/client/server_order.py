"""Orders the servers of a cluster: those given, those that nodes name, and the leader among them.

Any node takes any request; asking the leader saves a hop. The addresses that a node names are hints: one that cannot be
reached from here is passed over, and the given servers are always asked too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from raftsched.client.servers import Server, parse_servers
from raftsched.client.wire import LEADER

if TYPE_CHECKING:
    from raftsched.client.generated.cluster import ClusterView  # msgspec, which the command line does without

COOL_S = 5.0  # how long a server that did not answer is asked last
STRANGE_COOL_S = 60.0  # the same for an address that never answered
LEARN_EVERY_S = 5.0
LEARNED_MAX = 100  # nodes


class Nodes:
    """The known servers of one cluster."""

    def __init__(self, given: Sequence[Server], *, discover: bool = True) -> None:
        """`discover`: ask nodes for the others' addresses, and send changes to the leader. Not done behind a path: a
        proxy stands there, and is meant to be used. Where any of the given servers is https, others are asked by https
        only: no node can turn encryption off."""
        self.given = list(given)
        self.leader: str | None = None
        self._discover = discover and not any(s.path for s in given)
        self._sealed = any(s.scheme == "https" for s in given)
        self._learned: dict[str, Server] = {}
        self._cooling: dict[Server, float] = {}  # until when
        self._answered: set[Server] = set()
        self._last: Server | None = None
        self._learn_at = 0.0

    def order(self, now: float, *, lead: bool) -> list[Server]:
        """Returns the servers in the order in which to ask them; the leader first when `lead`."""
        first = self._learned.get(self.leader or "") if lead else None
        wanted = [first, self._last, *self.given, *self._learned.values()]
        servers = list(dict.fromkeys(s for s in wanted if s is not None))
        return sorted(servers, key=lambda s: self._cooling.get(s, 0.0) > now)  # stable

    def answered(self, server: Server, headers: Mapping[str, str], *, lead: bool, able: bool = True) -> None:
        """Keeps to a server that is `able` to do what it is asked for; changes do not count where they go to the
        leader."""
        self._cooling.pop(server, None)
        self._answered.add(server)
        if able and (not lead or not self._discover or self._last is None):
            self._last = server
        if LEADER in headers:
            self.leader = headers[LEADER] or None

    def knows(self, server: Server) -> bool:
        """Returns True when the server has ever answered."""
        return server in self._answered

    def failed(self, server: Server, now: float) -> None:
        """Asks the server last for a while."""
        known = server in self._answered or server in self.given
        self._cooling[server] = now + (COOL_S if known else STRANGE_COOL_S)
        if self._last == server:
            self._last = None

    def wants_to_learn(self, now: float) -> bool:
        """Returns True when the leader's address is not known and nobody was asked for it lately. The caller then asks:
        the next call returns False for a while."""
        if not self._discover or self.leader is None or self.leader in self._learned or now < self._learn_at:
            return False
        self._learn_at = now + LEARN_EVERY_S
        return True

    def learn(self, view: ClusterView) -> None:
        """Takes the addresses of all nodes from a node's answer."""
        learned: dict[str, Server] = {}
        for node in view.nodes[:LEARNED_MAX]:
            try:
                if node.http:
                    server = parse_servers(node.http)[0]
                    if server.scheme == "https" or not self._sealed:
                        learned[node.id] = server
            except ValueError:
                continue
        self._learned = learned
        if self._sealed and not learned and any(node.http for node in view.nodes):
            self._discover = False  # something with TLS stands in front of nodes that have none
        places = {*learned.values(), *self.given}
        self._answered &= places
        self._cooling = {s: until for s, until in self._cooling.items() if s in places}
