"""A node's mark in a store of output, by which it sees whether the store still has what the node has put there.

A bucket that was made anew, or a directory that was emptied, takes what is put as before; it is the note on the node's
disk that is not true any more. So there is an object that is never deleted, with a number that no other has. Each node
has its own: two cannot write different ones.
"""

from __future__ import annotations

import hashlib
import io
import secrets

from raftsched.objectstore.store import NoSuchObject, ObjectStore
from raftsched.output.following.places import STORE_BYTES

_MOST = 1_000  # bytes that are read of one


def new_mark() -> bytes:
    return b"raftsched: while this is here, what this node has put counts as put; " + secrets.token_hex(16).encode()


def id_of(mark: bytes) -> bytes:
    """Returns what tells a store with this mark from others, in notes of what was put."""
    return hashlib.sha256(mark).digest()[:STORE_BYTES]


def see_mark(store: ObjectStore, key: str, new: bytes) -> bytes:
    """Returns the mark that is there, or, where there is none, puts the new one. Blocks. Raises ObjectStoreError."""
    try:
        mark = b"".join(store.get(key, 0, _MOST))
    except NoSuchObject:
        mark = new
    store.put(key, io.BytesIO(mark))  # also where it is there: a bucket may delete what is old
    return mark
