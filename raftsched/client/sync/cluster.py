"""Made from client/cluster.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raftsched.client.generated.cluster import ClusterView, Doctor, Leadership, Members, Term
from raftsched.client.generated.nodes import NodeDetail
from raftsched.client.generated.whoami import Who
from raftsched.client.generated.workers import Worker, WorkerDetail
from raftsched.client.sync.bridge import Bridge


class Cluster:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def transfer(self, to: str | None = None) -> Leadership:
        """Hands leadership over, to this voting member, or to the one that has most of the log."""
        return self._bridge.run(lambda c: c.cluster.transfer(to))

    def status(self) -> ClusterView:
        """Returns the cluster as the answering node sees it, also when there is no leader."""
        return self._bridge.run(lambda c: c.cluster.status())

    def doctor(self) -> Doctor:
        """Returns what is wrong with the cluster, or soon will be, and what would make it right, also when there is no
        leader."""
        return self._bridge.run(lambda c: c.cluster.doctor())

    def terms(self) -> Sequence[Term]:
        """The newest 200 leaderships, the newest first. Terms in which nobody came to lead are left out."""
        return self._bridge.run(lambda c: c.cluster.terms())

    def members(self) -> Members:
        """Returns the members of the cluster, and the nodes that ask to join."""
        return self._bridge.run(lambda c: c.cluster.members())

    def add_member(self, id: str, *, store: str | None = None, replace: bool = False) -> None:
        """Adds a node that is waiting to join, as a member without a vote: it first receives all data, and gets its
        vote when it has caught up. With "replace" it takes the place of the member of the same name, whose disk is
        lost. `store`: only the one with this disk, as `members` shows it. ConflictError "not-waiting" when it does not
        ask, "membership-busy" while another change is under way."""
        self._bridge.run(lambda c: c.cluster.add_member(id, store=store, replace=replace))

    def remove_member(self, id: str) -> None:
        """Removes a member. If it leads, leadership is transferred first."""
        self._bridge.run(lambda c: c.cluster.remove_member(id))

    def settings(self) -> dict[str, Any]:
        """Returns all limits and defaults that hold on every node alike; durations as text."""
        return self._bridge.run(lambda c: c.cluster.settings())

    def set_settings(self, **changes: Any) -> dict[str, Any]:
        """Changes the given settings, None to the default, and returns all of them. InvalidError names each value out
        of bounds."""
        return self._bridge.run(lambda c: c.cluster.set_settings(**changes))

    def pause(self) -> None:
        """Nothing is fired or started any more; what runs goes on."""
        self._bridge.run(lambda c: c.cluster.pause())

    def resume(self) -> None:
        """Lets jobs start again. Each job's misfire policy says what happens to times that were missed."""
        self._bridge.run(lambda c: c.cluster.resume())

    def whoami(self) -> Who:
        """Returns the caller as the cluster knows them: name, roles, and until when. Raises AuthError when a token is
        missing or not valid."""
        return self._bridge.run(lambda c: c.cluster.whoami())

    def oidc(self) -> dict[str, Any]:
        """The issuer whose tokens are taken, and the rules by which they give roles. NotFoundError: none are."""
        return self._bridge.run(lambda c: c.cluster.oidc())

    def set_oidc(
        self,
        issuer: str,
        audience: str,
        rules: Sequence[Mapping[str, Any]],
        *,
        client_id: str | None = None,
        username_claim: str | None = None,
        algorithms: Sequence[str] = ("RS256", "ES256"),
    ) -> dict[str, Any]:
        """Says all of it anew. Each rule: {"claim", "value", "role"} and, for a role in some of them only,
        "namespaces". InvalidError names what is wrong."""
        return self._bridge.run(
            lambda c: c.cluster.set_oidc(
                issuer, audience, rules, client_id=client_id, username_claim=username_claim, algorithms=algorithms
            )
        )

    def forget_oidc(self) -> None:
        """Tokens of an issuer are not taken any more."""
        self._bridge.run(lambda c: c.cluster.forget_oidc())


class ClusterNodes:
    """The members as they run jobs."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def list(self) -> Sequence[NodeDetail]:
        """Returns all members."""
        return self._bridge.run(lambda c: c.nodes.list())

    def get(self, id: str) -> NodeDetail:
        """Returns the member. NotFoundError: there is none of this name."""
        return self._bridge.run(lambda c: c.nodes.get(id))

    def set_labels(
        self, id: str, labels: Mapping[str, str | None] | None, *, if_match: int | None = None
    ) -> NodeDetail:
        """Adds to the labels that hold; a value of None takes one out, None for all: those the node was started with.
        `if_match`: only while what is said about it is this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.nodes.set_labels(id, labels, if_match=if_match))

    def set_slots(self, id: str, slots: int | None, *, if_match: int | None = None) -> NodeDetail:
        """Sets its attempts at one time; None: as many as the node was started with. `if_match`: only while what is
        said about it is this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.nodes.set_slots(id, slots, if_match=if_match))

    def drain(self, id: str) -> NodeDetail:
        """It takes nothing new; what runs there ends as it would. Also while the node is down."""
        return self._bridge.run(lambda c: c.nodes.drain(id))

    def undrain(self, id: str) -> NodeDetail:
        """Gives runs to the node again."""
        return self._bridge.run(lambda c: c.nodes.undrain(id))


class Workers:
    """Remote workers: machines that work without voting."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def list(self, *, most: int | None = None) -> Iterator[Worker]:
        """Yields the remote workers with a session by name, at most `most` (None: all)."""
        return self._bridge.each(lambda c: c.workers.list(most=most))

    def get(self, name: str) -> WorkerDetail:
        """Its own words about itself, and its runs. NotFoundError: there is no worker of this name with an open
        session."""
        return self._bridge.run(lambda c: c.workers.get(name))
