"""Made from client/cluster.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raftsched.client.generated.cluster import Term
from raftsched.client.models_cluster import (
    ClusterView,
    Doctor,
    Leadership,
    Members,
    NodeDetail,
    Who,
    Worker,
    WorkerDetail,
)
from raftsched.client.sync.bridge import Bridge


class Cluster:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def status(self) -> ClusterView:
        """Returns the cluster as the answering node sees it, also when there is no leader."""
        return self._bridge.run(lambda c: c.cluster.status())

    def doctor(self) -> Doctor:
        """Returns what is wrong with the cluster, or soon will be, and what would make it right, also when there is no
        leader."""
        return self._bridge.run(lambda c: c.cluster.doctor())

    def settings(self) -> dict[str, Any]:
        """Returns all limits and defaults that hold on every node alike; durations as text."""
        return self._bridge.run(lambda c: c.cluster.settings())

    def set_settings(self, **changes: Any) -> dict[str, Any]:
        """Changes the given settings, None to the default, and returns all of them. InvalidError names each value out
        of bounds."""
        return self._bridge.run(lambda c: c.cluster.set_settings(**changes))

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

    def pause(self) -> None:
        """Nothing is fired or started any more; what runs goes on."""
        self._bridge.run(lambda c: c.cluster.pause())

    def resume(self) -> None:
        """Lets jobs start again. Each job's misfire policy says what happens to times that were missed."""
        self._bridge.run(lambda c: c.cluster.resume())

    def members(self) -> Members:
        """Returns the members of the cluster, and the nodes that ask to join."""
        return self._bridge.run(lambda c: c.cluster.members())

    def add_member(self, id: str, *, store: str | None = None, replace: bool = False) -> None:
        """Lets a node in that asks for it. It gets everything first, and votes by itself when it has caught up.
        `store`: only the one with this disk, as `members` shows it. `replace`: in place of the member of its name,
        whose disk is lost. ConflictError "not-waiting" when it does not ask, "membership-busy" while another change is
        under way."""
        self._bridge.run(lambda c: c.cluster.add_member(id, store=store, replace=replace))

    def remove_member(self, id: str) -> None:
        """Removes a member. If it leads, leadership is handed over first."""
        self._bridge.run(lambda c: c.cluster.remove_member(id))

    def transfer(self, to: str | None = None) -> Leadership:
        """Hands leadership over, to this voting member, or to the one that has most of the log."""
        return self._bridge.run(lambda c: c.cluster.transfer(to))

    def terms(self) -> Sequence[Term]:
        """List the newest leaderships. The newest first, 200 of them at most. Terms in which nobody came to lead are
        left out."""
        return self._bridge.run(lambda c: c.cluster.terms())


class ClusterNodes:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, id: str) -> NodeDetail:
        """NotFoundError: there is no such member."""
        return self._bridge.run(lambda c: c.nodes.get(id))

    def drain(self, id: str) -> NodeDetail:
        """Gives no new runs to the node; runs that are there go on. Works also while the node is down."""
        return self._bridge.run(lambda c: c.nodes.drain(id))

    def undrain(self, id: str) -> NodeDetail:
        """Gives runs to the node again."""
        return self._bridge.run(lambda c: c.nodes.undrain(id))

    def set_labels(
        self, id: str, labels: Mapping[str, str | None] | None, *, if_match: int | None = None
    ) -> NodeDetail:
        """Added to those that hold; a value of None takes one out, None for all: those the node was started with.
        `if_match`: only while what is said about it is this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.nodes.set_labels(id, labels, if_match=if_match))

    def set_slots(self, id: str, slots: int | None, *, if_match: int | None = None) -> NodeDetail:
        """Attempts at one time; None: as many as the node was started with. `if_match` as in `set_labels`."""
        return self._bridge.run(lambda c: c.nodes.set_slots(id, slots, if_match=if_match))

    def list(self) -> Sequence[NodeDetail]:
        """Returns all members."""
        return self._bridge.run(lambda c: c.nodes.list())


class Workers:
    """Remote workers: machines that work without voting."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, name: str) -> WorkerDetail:
        """NotFoundError: there is no worker of this name with an open session."""
        return self._bridge.run(lambda c: c.workers.get(name))

    def list(self, *, most: int | None = None) -> Iterator[Worker]:
        """By name; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.workers.list(most=most))
