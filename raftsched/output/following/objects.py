"""Makes and parses the names of objects with output: CLUSTER/output/NODE/SEGMENT/DISK[-OWNER]-at-START.

All parts of a segment lie below one prefix, whichever disk of the node it was on: a reader, who knows node and segment
from the log, finds them with one short list.
"""

from __future__ import annotations

import re

from raftsched import names
from raftsched.output.following.places import STORE_BYTES, Place

_KEY = re.compile(
    r"(?P<cluster>[0-9a-f]{32})/output"
    rf"/(?P<node>{names.NODE.regex})"
    r"/(?P<segment>[0-9]{8,15})"
    rf"/(?P<store>[0-9a-f]{{{2 * STORE_BYTES}}})(?:-(?P<owner>[0-9a-f]{{24}}))?-at-(?P<start>[0-9]{{13}})",
    re.ASCII,
)


def key_of(cluster: str, place: Place) -> str:
    """Returns the key of a part of a segment."""
    of = f"-{place.owner}" if place.owner else ""
    return f"{prefix_of(cluster, place.node, place.segment)}{place.store.hex()}{of}-at-{place.start:013d}"


def prefix_of(cluster: str, node: str = "", segment: int | None = None) -> str:
    """Returns how the keys begin of all that a cluster has put, or a node of it, or of one segment of this."""
    of_node = f"{node}/" if node else ""
    return f"{cluster}/output/{of_node}" + ("" if segment is None else f"{segment:08d}/")


def probe_key(cluster: str, node: str) -> str:
    """Returns the key at which a node tries whether it can use the store."""
    return f"{prefix_of(cluster, node)}probe"


def mark_key(cluster: str, node: str) -> str:
    """Returns the key of the object by which a node sees that the store has what it put (marks.py)."""
    return f"{prefix_of(cluster, node)}mark"


def place_in(cluster: str, key: str) -> Place | None:
    """Returns the place that a key of this cluster says; None: it is not of this form, or of another cluster."""
    found = _KEY.fullmatch(key)
    if found is None or found["cluster"] != cluster:
        return None
    store = bytes.fromhex(found["store"])
    return Place(found["node"], store, int(found["segment"]), found["owner"] or "", int(found["start"]))
