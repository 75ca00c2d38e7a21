"""Tells whether a majority of the disks is lost, and what to do then: what needs a majority cannot work, as replacing a
member does; a new cluster can begin with all that the node has that has most.

Views are answers of `GET /v1/cluster`, one of each node that could be asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

SEE = 'docs/runbook.md, "A majority is lost"'
HEALTHY = "with a majority of the members healthy"
ELSE = f"Without a majority empty no other: {SEE}"
_UNFIT = ("disk-went-back", "other-disk")


def no_majority(voters: Collection[str], unfit: Collection[str]) -> bool:
    """Returns whether those with the disk of a member cannot be a majority of the voting members, whoever comes
    back."""
    return bool(voters) and 2 * len(set(voters) - set(unfit)) <= len(voters)


def said_of(voters: Collection[str], unfit: Collection[str]) -> str:
    """Returns what is the matter, without a full stop."""
    gone = sorted(set(voters) & set(unfit))
    return (
        f"the disk{'s' * (len(gone) > 1)} of {', '.join(gone)} {'are' if len(gone) > 1 else 'is'} lost, or went back to"
        f" an earlier state: no majority of the voting members {', '.join(sorted(voters))} is left, so that none can"
        " lead, and none be added or replaced"
    )


class Has(NamedTuple):
    """Says how far a node is. Its log may have more than it has applied: what was acknowledged before it heard of the
    commit. Versions before 0.3.0 do not say of which entry, and of which term, the newest in the log is."""

    applied: int
    entry: int = 0
    term: int = 0


@dataclass(frozen=True)
class Lost:
    """A lost majority. `has`: how far nodes are, by node."""

    voters: Collection[str]
    unfit: Collection[str]
    has: Mapping[str, Has]
    http: Mapping[str, str]
    raft: Mapping[str, str]

    @property
    def best(self) -> str:
        """The node that has most; of several the one whose disk is the member's."""
        return max(self.has, key=lambda node: (_most(self.has, node), node not in self.unfit, node))

    @property
    def says(self) -> str:
        return said_of(self.voters, self.unfit)

    @property
    def most(self) -> str:
        """Says which node has most, of those that could be asked, without a full stop."""
        terms = len({_most(self.has, node)[0] for node in self.has}) > 1
        upto = {
            node: f"{index} of term {term}" if terms else f"{index}"
            for node, (term, index, _) in ((node, _most(self.has, node)) for node in sorted(self.has))
        }
        others = [f"{node} {at}" for node, at in upto.items() if node != self.best]
        silent = sorted(set(self.voters) - self.has.keys())
        compared = f" ({', '.join(others)})" if others else ""
        unknown = f"; what {', '.join(silent)} has is not known" if silent else ""
        return f"{self.best} has most, up to entry {upto[self.best]}{compared}{unknown}"

    @property
    def do(self) -> str:
        """Says what to do, in one line."""
        return f"empty no data directory; {self.most}: {self.backup}, and begin a new cluster with that: {SEE}"

    @property
    def backup(self) -> str:
        """The command that saves all that the best node has."""
        server = self.http.get(self.best)
        return f"raftsched {f'--server {server} ' if server else ''}cluster backup --local raftsched.backup"

    def steps(self) -> Iterator[str]:
        """Gives what to do, line by line; commands are indented."""
        best = self.best
        yield f"Empty no data directory. {self.most}. Save that, and begin a new cluster with it ({SEE}):"
        yield f"  {self.backup}"
        yield "  raftsched cluster verify raftsched.backup --cluster-key-file cluster.key"
        yield f"Stop all nodes, and move their data directories away. On {best}, whose DIR is in OLD now:"
        yield (
            "  raftsched cluster restore raftsched.backup --cluster-key-file cluster.key"
            f" --log OLD --data DIR --id {best} --raft {self.raft.get(best, 'HOST:PORT')}"
        )
        yield f"Start {best} as always, and the others with empty data directories; let them in:"
        for node in sorted(set(self.voters) - {best}):
            yield f"  raftsched cluster members add {node} --wait"


def _most(has: Mapping[str, Has], node: str) -> tuple[int, int, int]:
    """Returns the order of nodes by what they have: term and index of the newest entry in the log, as in an election,
    then what is applied. All are compared by what they applied where one does not say what its log has."""
    applied, entry, term = has[node]
    return (term, entry, applied) if all(one.entry for one in has.values()) else (0, applied, applied)


def lost_majority(views: Sequence[Mapping[str, Any]], known: Mapping[str, Has] | None = None) -> Lost | None:
    """Returns what is known of a lost majority. None: a leader is there, or may come. `known`: how far nodes are,
    beside what they say in their views."""
    views = [view for view in views if view.get("nodes")]
    if not views or any(view.get("leader") for view in views):
        return None
    has: dict[str, Has] = dict(known or {})
    for view in views:
        has.update({node: own for node, own in [_own(view)] if own is not None and view.get("formed", True)})
    order = {node: _most(has, node) for node in has}
    views = sorted(views, key=lambda view: order.get(view.get("node", ""), (0, 0, 0)), reverse=True)
    rows = views[0]["nodes"]
    voters = [row["id"] for row in rows if row.get("voter")]
    unfit: set[str] = set()
    for view in views:  # what one says that has lost something itself counts for less
        if view.get("node") not in unfit:
            unfit |= {one["id"] for one in view.get("waiting", ()) if one.get("why") in _UNFIT}
    has = {node: at for node, at in has.items() if node in voters}
    if not has or not no_majority(voters, unfit):
        return None
    told = [row for view in reversed(views) for row in view["nodes"]]
    http = {row["id"]: row["http"] for row in told if row.get("http")}
    raft = {row["id"]: row["raft"] for row in [*told, *rows] if row.get("raft")}
    return Lost(voters, sorted(unfit.intersection(voters)), has, http, raft)


def _own(view: Mapping[str, Any]) -> tuple[str, Has | None]:
    """Returns the node that gave the view, and how far it is."""
    node = view.get("node") or ""
    own: Mapping[str, Any] = next((row for row in view["nodes"] if row["id"] == node), {})
    applied = own.get("applied_index")
    has = None if applied is None else Has(applied, own.get("log_index") or 0, own.get("log_term") or 0)
    return node, has
