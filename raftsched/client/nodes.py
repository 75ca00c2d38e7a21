"""Which node to ask next: the given servers, those that the cluster names, and which of them leads.

Any node takes any request; asking the leader saves a hop. What a node says about addresses is a hint, never a need:
one that cannot be reached from here is passed over, and the given servers are always asked too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raftsched.client.models_cluster import ClusterView
from raftsched.client.servers import Server, parse_servers

COOL_S = 5.0  # how long a node that did not answer is asked last
STRANGE_COOL_S = 60.0  # the same for an address that never answered
LEARN_EVERY_S = 5.0
LEARNED_MAX = 100  # nodes


class Nodes:
    def __init__(self, given: Sequence[Server], *, discover: bool = True) -> None:
        """`discover`: ask nodes for the others' addresses. Not done behind a path: there stands something between,
        which is the way that was meant. Where any of the given is https, others are asked by https only: no node can
        say that from now on all goes in clear."""
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
        """Whom to ask, one after the other; the leader first when `lead`."""
        first = self._learned.get(self.leader or "") if lead else None
        wanted = [first, self._last, *self.given, *self._learned.values()]
        servers = list(dict.fromkeys(s for s in wanted if s is not None))
        return sorted(servers, key=lambda s: self._cooling.get(s, 0.0) > now)  # stable

    def answered(self, server: Server, headers: Mapping[str, str], *, lead: bool) -> None:
        self._cooling.pop(server, None)
        self._answered.add(server)
        if not lead or self._last is None:
            self._last = server
        if "Raftsched-Leader" in headers:
            self.leader = headers["Raftsched-Leader"] or None

    def knows(self, server: Server) -> bool:
        """Whether it has ever answered."""
        return server in self._answered

    def failed(self, server: Server, now: float) -> None:
        known = server in self._answered or server in self.given
        self._cooling[server] = now + (COOL_S if known else STRANGE_COOL_S)
        if self._last == server:
            self._last = None

    def wants_to_learn(self, now: float) -> bool:
        """True when the leader's address is not known and nobody was asked for it lately; from then on somebody was."""
        if not self._discover or self.leader is None or self.leader in self._learned or now < self._learn_at:
            return False
        self._learn_at = now + LEARN_EVERY_S
        return True

    def learn(self, view: ClusterView) -> None:
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
