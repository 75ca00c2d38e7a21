"""Checks the audit from outside: computes its hashes again, and holds a copy against it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftsched.cli.failures import Failure
from raftsched.importers.documents import given_twice
from raftsched.surface.plain import audit, cluster
from raftsched.surface.plain.audit import RECORD_KIND
from raftsched.system.regular_files import open_regular

if TYPE_CHECKING:
    from raftsched.client.http import Client

_TRIES = 5  # while notes are dropped at the far end
_AGAIN_S = 0.5  # until a copy is read again that is followed
# Beside notes a copy has lines of its own: requests that a node refused, and whose these are, how many so far
REFUSED, EXPORT = "refused", "export"
_NOTE = "index at kind actor token operation resource namespace subject job count remote change position hash"
FIELDS = {
    **dict.fromkeys(RECORD_KIND, frozenset(_NOTE.split())),
    REFUSED: frozenset(
        ["kind", "node", "first_at", "last_at", "status", "method", "resource", "actor", "remote", "count", "hash"]
    ),
    EXPORT: frozenset(("kind", "node", "refused", "hash")),
}
_CHAINED = ("job", "secret")  # kinds that came after the chain: each of their notes has a hash
_HASH = re.compile(r"[0-9a-f]{64}")
_TIMES = ("at", "first_at", "last_at")
_COUNTS = ("index", "position", "count", "status", "refused")
_TEXTS = ("node", "method", "actor", "remote")


class Broken(Exception):
    """The place where the record does not fit together, in words."""


def hash_of(before: str, note: Mapping[str, Any]) -> str:
    """Returns the hash that a note should have after one whose hash is `before`, both in hexadecimal."""
    change = note["change"]
    said = [
        note["kind"],
        note["index"],
        note["position"],
        round(datetime.fromisoformat(note["at"]).timestamp() * 1000),
        note["token"] or "",
        note["actor"],
        note["operation"],
        note["resource"] or "",
        note["remote"] or "",
        note["namespace"] or "",
        note["subject"] or "",
        note["job"] or "",
        note["count"],
        "" if change is None else text_of(change, sort=True),
    ]
    return sha256(bytes.fromhex(before) + text_of(said).encode()).hexdigest()


def own_hash(before: str, line: Mapping[str, Any]) -> str:
    """Returns the hash that a line of the export's own should have, after one of these whose hash is `before`."""
    said = {name: value for name, value in line.items() if name != "hash"}
    return sha256(bytes.fromhex(before) + text_of(said, sort=True).encode()).hexdigest()


def text_of(value: Any, sort: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def _place(note: Mapping[str, Any]) -> str:
    return f"the note at index {note['index']} ({note['kind']}, {note['operation']} by {note['actor']}, {note['at']})"


class Behind(Broken):
    """The copy lacks what came last. One that is followed may have it a moment later."""


class Walk:
    """A walk along the notes of one kind, the oldest first."""

    def __init__(self, before: str | None) -> None:
        """`before`: the hash in front of the first; None: it is not known."""
        self.before = before
        self.first: Mapping[str, Any] | None = None
        self.last: Mapping[str, Any] | None = None
        self.bare: list[tuple[str, str]] = []  # content and time of those without a hash
        self.unproved: Mapping[str, Any] | None = None  # what could not be held against a hash before it
        self.count = 0
        self.seen: list[tuple[str, str]] = []  # hash and time of each, where they are remembered

    def step(self, note: Mapping[str, Any], remember: bool = False) -> bool:
        """Returns False when the note does not fit the one before."""
        self.count += 1
        self.first = self.first or note
        self.last = note
        found = note["hash"]
        if found is None:  # older than the chain, which therefore begins behind it
            fits = not self.before and note["kind"] not in _CHAINED
            self.before = ""
            self.bare.append((hash_of("", note), note["at"]))
        else:
            if self.before is None:
                self.unproved = note
            fits = self.before is None or hash_of(self.before, note) == found
            self.before = found
        if remember:
            self.seen.append((found or "", note["at"]))
        return fits


@dataclass
class Copied:
    """A copy that was read. `whose`: the node whose refusals it has."""

    notes: dict[str, Walk] = field(default_factory=dict)
    refused: dict[tuple[Any, ...], Mapping[str, Any]] = field(default_factory=dict)
    whose: str = ""
    closed: bool = False  # its last line of its own says how many refusals there are


def verify_all(
    client: Client, copy: Path | None, since: datetime | None = None, until: datetime | None = None, wait_s: float = 0
) -> dict[str, Any]:
    """Checks all notes, and returns what was found, by kind: of the cluster, and of the copy as `copy`. `since`,
    `until`: the copy has only what came in between. `wait_s`: as long it may take to have what the cluster has. Raises
    Broken."""
    copied = None if copy is None else _read_whole(copy, since, wait_s)
    refusals = None if copy is None else client.get(audit.REFUSALS)
    chains = client.get(audit.CHAIN)
    cluster: dict[str, tuple[Walk, Mapping[str, Any]]] = {}
    for kind in RECORD_KIND:
        if kind in chains:  # a node of an earlier version has fewer
            walk = None if copied is None else copied.notes.get(kind)
            cluster[kind] = _verify_kind(client, kind, None if walk is None else walk.unproved)
    found: dict[str, Any] = {
        kind: {"notes": walk.count, "head": walk.before or ""} for kind, (walk, _) in cluster.items()
    }
    if copy is None or refusals is None:
        return found
    due = {kind: walk.before or "" for kind, (walk, _) in cluster.items()}  # of each kind the newest note to be in it
    for left in range(round(wait_s / _AGAIN_S), -1, -1):
        try:
            copied = copied or read_copy(copy, whole=since is None)
            for kind, newest in due.items():
                notes = copied.notes.get(kind)
                if notes is not None and _place_of_last(notes, *cluster[kind]) is None:  # it may have come meanwhile
                    cluster[kind] = _verify_kind(client, kind, notes.unproved)
                found[kind]["copy"] = _compare(kind, notes, *cluster[kind], newest, since, until)
            return {**found, REFUSED: _compare_refusals(client, copied, refusals, since, until)}
        except Behind:
            if not left:
                raise
            copied = None
            time.sleep(_AGAIN_S)
    raise AssertionError


def _read_whole(copy: Path, since: datetime | None, wait_s: float) -> Copied:
    """Reads a copy when the line is whole that is being written. Raises Broken."""
    for left in range(round(wait_s / _AGAIN_S), -1, -1):
        try:
            return read_copy(copy, whole=since is None)
        except Behind:
            if not left:
                raise
            time.sleep(_AGAIN_S)
    raise AssertionError


def _verify_kind(client: Client, kind: str, begins: Mapping[str, Any] | None) -> tuple[Walk, Mapping[str, Any]]:
    """`begins`: the first note of a copy. No hash in the copy says what it was, so the cluster's own says it."""
    for _ in range(_TRIES):
        ends = client.get(audit.CHAIN)[kind]
        walk = Walk(ends["base"])
        first, whole = True, not ends["head"]
        for note in client.items(audit.LIST, {"kind": kind, "order": "oldest"}, None):
            if not walk.step(note, remember=True):
                if first and client.get(audit.CHAIN)[kind]["base"] != ends["base"]:
                    break  # the oldest were dropped meanwhile
                raise Broken(f"{_place(note)} does not fit to the one before it: one was changed, or one is missing")
            if begins is not None and note["hash"] == begins["hash"] and hash_of("", note) != hash_of("", begins):
                raise Broken(f"{_place(begins)} is another one in the cluster: the copy was changed")
            whole = whole or note["hash"] == ends["head"]
            first = False
        else:
            if not whole:
                raise Broken(f"the newest note of kind {kind} is missing: its hash {ends['head']} is in no note")
            return walk, ends
    raise Failure("notes are dropped faster than they can be read; raise audit_max or audit_keep")


def _compare(
    kind: str,
    copied: Walk | None,
    cluster: Walk,
    ends: Mapping[str, Any],
    due: str,
    since: datetime | None,
    until: datetime | None,
) -> dict[str, Any]:
    """Returns what the copy has of one kind, and how many newer notes the cluster has. `due`: the hash of the newest
    that is to be in it. Raises Broken where it lacks some that are to be in it."""
    places = _places(cluster)
    end = places.get(due, -1) + 1 if due else len(cluster.seen)
    if copied is None:
        lacks = _between(cluster.seen[:end], since, until)
        if lacks:
            raise Behind(f"the copy has no note of kind {kind}, and the cluster has {_some(lacks)}")
        return {"notes": 0, "first": None, "last": None, "newer": len(cluster.seen), "unproved": 0}
    assert copied.first is not None
    assert copied.last is not None
    if not copied.before:
        raise Broken(f"no note of kind {kind} in the copy has a hash: it was made before there were any, or changed")
    last = _place_of_last(copied, cluster, ends)
    if last is None:
        raise Broken(
            f"the cluster does not have the last note of kind {kind} that the copy has: its record was rewritten,"
            " or the copy is of another cluster, or so old that the note is not kept any more"
        )
    unproved = 0
    if copied.first["hash"] is None:
        unproved, before = _compare_bare(kind, copied.bare, cluster.bare, since)
    else:
        before = places.get(copied.first["hash"], 0)
    older = _between(cluster.seen[:before], since, until)
    if older:
        raise Broken(
            f"the copy begins with {_place(copied.first)}, and the cluster has {_some(older)} before that: its head was"
            " cut; say --from TIME if it begins later on purpose"
        )
    newer = cluster.seen[last + 1 :]
    lacks = _between(cluster.seen[last + 1 : end], since, until)
    if lacks:
        raise Behind(
            f"the copy ends with {_place(copied.last)}, and the cluster has {_some(lacks)} after that: its tail was"
            " cut, or it is older than they are; say --to TIME if it ends earlier on purpose"
        )
    return {
        "notes": copied.count,
        "first": copied.first["at"],
        "last": copied.last["at"],
        "newer": len(newer),
        "unproved": unproved,
    }


def _places(cluster: Walk) -> dict[str, int]:
    return {found: place for place, (found, _) in enumerate(cluster.seen) if found}


def _place_of_last(copied: Walk, cluster: Walk, ends: Mapping[str, Any]) -> int | None:
    """Returns where the last note of a copy is among those of the cluster; -1: it is the newest that was dropped."""
    last = copied.before or ""
    return _places(cluster).get(last, -1 if last == ends["base"] else None)


def _compare_bare(
    kind: str, copied: Sequence[tuple[str, str]], cluster: Sequence[tuple[str, str]], since: datetime | None
) -> tuple[int, int]:
    """Returns how many notes without a hash the copy has beyond those that the cluster still has, and how many of these
    are older than the copy. No hash covers them: they are compared by what they say. Raises Broken."""
    both = min(len(copied), len(cluster))
    for ours, theirs in zip(copied[len(copied) - both :], cluster[len(cluster) - both :], strict=True):
        if ours != theirs:
            raise Broken(
                f"a note of kind {kind} without a hash ({ours[1]}) is another one in the cluster: the copy was changed"
            )
    unproved = len(copied) - both
    if unproved and since is None:
        raise Broken(
            f"{unproved} notes of kind {kind} without a hash: not proved, for the cluster does not have them (any more)"
            "; say --from TIME if that is known"
        )
    return unproved, len(cluster) - both


def _compare_refusals(
    client: Client, copied: Copied, now: Mapping[str, Any], since: datetime | None, until: datetime | None
) -> dict[str, Any]:
    """Does the same for refusals, of which a node remembers the newest. Of the minute that goes on none has to be in
    the copy yet; those of the newest minute in it may go on after it was made."""
    if not copied.closed:
        raise Behind(
            "the copy does not end its refusals with a line of kind export: it was cut, or made by a version before"
            " 0.3.0, whose raftsched verifies it"
        )
    same = copied.whose == now["node"]
    if not same and until is None:
        members = [one["id"] for one in client.get(cluster.MEMBERS)["items"]]
        if copied.whose not in members:
            raise Broken(
                f"the refusals in the copy are of {copied.whose[:64]}, which is no member; members are"
                f" {', '.join(members)}. If it was one, say --to TIME with the time when it was removed"
            )
    newest = max((one["last_at"] for one in now["items"]), default="")
    there = max((line["first_at"] for line in copied.refused.values() if line["node"] == now["node"]), default="")
    lacks, less = [], []
    for one in now["items"] if same else ():
        line = copied.refused.get(refusal_key(now["node"], one))
        if one["last_at"][:16] >= newest[:16]:
            continue
        if line is None:
            lacks.append(("", one["last_at"]))
        elif one["first_at"][:16] < there[:16] and any(line[name] < one[name] for name in ("count", "last_at")):
            less.append(("", one["last_at"]))
    if lacks := _between(sorted(lacks), since, until):
        raise Behind(f"{now['node']} refused what the copy does not have, {_some(lacks)}: its refusals were cut")
    if less := _between(sorted(less), since, until):
        raise Behind(f"{now['node']} refused more often than the copy says, {_some(less)}: refusals were changed")
    times = sorted(one["first_at"] for one in copied.refused.values())
    first, last = (times[0], times[-1]) if times else (None, None)
    held = now["node"] if same else None
    return {"copy": {"notes": len(times), "first": first, "last": last}, "node": copied.whose, "held_against": held}


def _between(seen: Iterable[tuple[str, str]], since: datetime | None, until: datetime | None) -> list[tuple[str, str]]:
    if since is None and until is None:
        return list(seen)
    return [
        one
        for one in seen
        if (since is None or datetime.fromisoformat(one[1]) >= since)
        and (until is None or datetime.fromisoformat(one[1]) < until)
    ]


def _some(seen: Sequence[tuple[str, str]]) -> str:
    return f"{len(seen)} (the first at {seen[0][1]})"


def refusal_key(node: str, one: Mapping[str, Any]) -> tuple[Any, ...]:
    return (node, *(one[name] for name in ("first_at", "remote", "actor", "status", "method", "resource")))


def read_copy(copy: Path, *, whole: bool = True) -> Copied:
    """Returns the copy if each line in it fits to the one before. `whole`: its refusals begin with the first. Raises
    Broken."""
    found = Copied()
    own: str | None = "" if whole else None
    number = 0
    with open_regular(copy) as file:
        for number, raw in enumerate(file, 1):
            where = f"{copy}, line {number}"
            try:
                line = read_line(raw, where)
                kind = line["kind"]
                if kind in RECORD_KIND:
                    fits = found.notes.setdefault(kind, Walk(None)).step(line)
                    words = f"{_place(line)} does not fit to the one before it"
                else:
                    fits = own is None or own_hash(own, line) == line["hash"]
                    own = line["hash"]
                    found.closed = kind == EXPORT
                    words = "a refusal was changed, or one is missing before it"
                    if kind == REFUSED:
                        found.refused[refusal_key(line["node"], line)] = line
                    else:
                        found.whose = line["node"]
                        fits = fits and (not whole or line["refused"] == len(found.refused))
            except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
                broken = Broken if raw.endswith(b"\n") else Behind  # it is being written
                raise broken(f"{where} is no line of an export") from None
            if not fits:
                raise Broken(f"{where}: {words}")
    if not number:
        raise Broken(f"{copy} is empty")
    return found


def read_line(raw: bytes, where: str) -> dict[str, Any]:
    """Returns a line of a copy. What readers of JSON take differently is refused, and what a hash does not cover.
    Raises Broken, ValueError, KeyError, TypeError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = given_twice(pairs)
        if twice is not None:
            raise Broken(f'{where} has "{twice[:64]}" twice')
        return dict(pairs)

    line: dict[str, Any] = json.loads(raw.decode(), object_pairs_hook=once)
    kind = str(line["kind"])
    if kind not in FIELDS:
        raise Broken(f'{where} is of the kind "{kind[:64]}"; known are {", ".join(FIELDS)}')
    if line.keys() != FIELDS[kind]:
        wrong = min(line.keys() ^ FIELDS[kind])
        raise Broken(f'{where} {"has an unknown" if wrong in line else "lacks the"} field "{wrong[:64]}"')
    for name, value in line.items():
        if not _is_of_type(kind, name, value):
            raise Broken(f'{where} has a value in the field "{name}" that no export writes')
    return line


def _is_of_type(kind: str, name: str, value: object) -> bool:
    if name == "hash":
        return (value is None and kind in RECORD_KIND) or (isinstance(value, str) and bool(_HASH.fullmatch(value)))
    if name in _TIMES:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    if name in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool)
    if name in _TEXTS:
        return isinstance(value, str) or (value is None and name in ("actor", "remote"))
    return True
