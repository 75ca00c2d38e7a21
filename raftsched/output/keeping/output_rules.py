"""The rules of what a node keeps of the output of runs, as its tables and its own options say now: how much of an
attempt, how much of a namespace's runs, and for how long. The options only lower what the tables say: they are about
the node's disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from raftsched.config.node import NodeConfig
from raftsched.core.rows import NAMESPACES, read_meta
from raftsched.core.rules.kept_output import kept_of
from raftsched.core.subjects.namespace import Namespace
from raftsched.core.tables import ReadView
from raftsched.output.format.segments import owner_of
from raftsched.output.keeping.store import OutputStore

_KNOWN_MAX = 1_000  # namespaces of which is remembered what they say
APART = 1 << 62  # bytes: as many as there are, and in segments of its own, which go by an age of their own

log = logging.getLogger(__name__)


class _UnknownOwners(NamedTuple):
    """Owners of segments that are no namespace of the tables of this revision."""

    revision: int
    owners: frozenset[str]


class OutputRules:
    """The rules of one node."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[ReadView]],
        *,
        most_bytes: int | None = None,
        keep_most_ms: int | None = None,
    ) -> None:
        """`read`: opens the tables. `most_bytes`, `keep_most_ms`: what this node keeps at most, whatever they say."""
        self._read = read
        self.most_bytes = most_bytes
        self.keep_most_ms = keep_most_ms
        self._known: dict[str, int] = {}
        self._shares: dict[str, int | None] = {}  # of the same namespaces
        self._names: dict[str, str] = {}  # of namespaces, by the owner of their segments
        self._unknown = _UnknownOwners(-1, frozenset())

    def take(self, most_bytes: int | None, keep_most_ms: int | None) -> None:
        """Goes by other options of this node from now on."""
        self.most_bytes, self.keep_most_ms = most_bytes, keep_most_ms

    def max_of(self, view: ReadView, namespace: str) -> int:
        """Returns how many bytes are kept of an attempt that starts now. For the thread that applies: what it reads is
        remembered until `forget`, for this is asked at each start. So is the namespace's share: who asks for that in
        another thread may see tables in which a namespace is not there yet whose first run has ended."""
        known = self._known.get(namespace)
        if known is None:
            if len(self._known) >= _KNOWN_MAX:
                self.forget()
            said = kept_of(view, namespace).max_bytes
            known = self._known[namespace] = said if self.most_bytes is None else min(said, self.most_bytes)
            self._shares[namespace] = self._share_in(view, namespace)
        return known

    def forget(self) -> None:
        """The settings or a namespace were changed."""
        self._known.clear()
        self._shares.clear()

    def share_of(self, namespace: str) -> int | None:
        """Returns how many bytes a namespace may have, APART where it has no such limit but an age or copies of its
        own, None: none of these. May be asked from any thread. Where the tables cannot be read it says None: an
        attempt's end is told with its output, whatever befell the tables."""
        if not namespace:
            return None
        with suppress(KeyError):
            return self._shares[namespace]
        try:
            with self._read() as view:
                return self._share_in(view, namespace)
        except Exception as error:
            log.warning("what the namespace %s may keep of its output is not known: %s", namespace, error)
            return None

    def _share_in(self, view: ReadView, namespace: str) -> int | None:
        row = NAMESPACES.get(view, namespace) if namespace else None
        if row is None:
            return None
        apart = row.output_keep_ms is not None or row.output_copies is not None
        share = APART if row.output_bytes is None and apart else row.output_bytes
        if share is not None:
            self._names[owner_of(namespace)] = namespace
        return share

    def ages(self, owners: Collection[str]) -> tuple[int, dict[str, int]]:
        """Returns for how long output is kept on this node's disk (ms), and for these owners of segments where their
        namespaces say it."""
        age_ms, own = self.ages_elsewhere(owners)
        return self._at_most(age_ms), {owner: self._at_most(ms) for owner, ms in own.items()}

    def ages_elsewhere(self, owners: Collection[str]) -> tuple[int, dict[str, int]]:
        """Returns the same whatever this node's own options say. All namespaces are looked through once at most, for
        the segments of an earlier process."""
        with self._read() as view:
            age_ms = read_meta(view).settings.output_keep_ms
            rows = self._rows(view, owners)
            return age_ms, {owner: row.output_keep_ms for owner, row in rows if row.output_keep_ms is not None}

    def copies(self, owners: Collection[str]) -> tuple[int, dict[str, int]]:
        """Returns on how many nodes output is to be, and for these owners of segments where their namespaces say it."""
        with self._read() as view:
            own = {owner: row.output_copies for owner, row in self._rows(view, owners) if row.output_copies is not None}
            return read_meta(view).settings.output_copies, own

    def share_of_owner(self, owner: str) -> int | None:
        """Returns how many bytes the segments of an owner may take; None: there is no such limit."""
        with self._read() as view:
            return next((row.output_bytes for _, row in self._rows(view, (owner,))), None)

    def _rows(self, view: ReadView, owners: Collection[str]) -> Iterator[tuple[str, Namespace]]:
        """Yields the namespaces of those owners that are of one."""
        self._look_for(view, {owner for owner in owners if owner and owner not in self._names})
        for owner in owners:
            name = self._names.get(owner) if owner else None
            row = None if name is None else NAMESPACES.get(view, name)
            if row is not None:
                yield owner, row

    def _look_for(self, view: ReadView, unknown: set[str]) -> None:
        """Finds the names of the namespaces that are these owners. That there is none is remembered for tables of the
        same revision alone: a thread may see older ones than another, in which a namespace is not there yet."""
        if not unknown:
            return
        revision = read_meta(view).last_revision
        known_unknown = self._unknown
        none = known_unknown.owners if known_unknown.revision == revision else frozenset()
        unknown = unknown - none
        for row in NAMESPACES.all(view) if unknown else ():
            owner = owner_of(row.name)
            if owner in unknown:
                self._names[owner] = row.name
                unknown.discard(owner)
                if not unknown:
                    return
        self._unknown = _UnknownOwners(revision, none | unknown)

    def _at_most(self, keep_ms: int) -> int:
        return keep_ms if self.keep_most_ms is None else min(keep_ms, self.keep_most_ms)


def output_of(config: NodeConfig, rules: OutputRules, now_ms: int) -> OutputStore:
    """Makes the node's store of output."""
    return OutputStore(
        config.data / "output",
        keep_bytes=config.output_keep_bytes,
        writes_owners=config.output_ship is not None,
        now_ms=now_ms,
        share_of=rules.share_of,
    )
