"""A segment: entries of the log, one after the other, in a file that says what is in it.

First a mark and the length of the label, then the label (JSON), the entries (msgpack, compressed), and the SHA-256 of
all before it. What one cluster's segments and backups say of index and term is enough to put them in a row.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from raftsched.core.entry import time_of
from raftsched.security.keyring import Keyring
from raftsched.store.backup import NotABackup, check_signed
from raftsched.store.write_batch import LogEntry

PURPOSE = "log segment"  # of the signing key, see keyring.derive
ENTRIES_BYTES = 8 << 20  # of entries in one segment, about; the last one may be larger
FILE_MAX = 80 << 20  # bytes of a file that is read at all: no entry is so large that a segment could have more
_RAW_MAX = 256 << 20  # bytes of entries, when they are no longer compressed
_LABEL_MAX = 4096
_MARK = b"raftsched segment\n"
_LENGTH = struct.Struct(">I")
_SUM = 32
_FORMAT = 1
_LEVEL = 3  # of zlib: the next ones take twice the time for a tenth less


class SegmentLabel(msgspec.Struct, kw_only=True):
    """The head of a segment."""

    format: int = _FORMAT
    first: int  # index of the first entry
    last: int  # and of the last
    before_term: int  # term of the entry before the first one; 0: there is none
    term: int  # of the last entry
    from_ms: int  # the earliest time of an entry, and the latest: a leader's clock may be behind that of the one before
    to_ms: int
    cluster_id: str  # hexadecimal
    node: str  # that made it
    version: str  # raftsched's
    at_ms: int  # by that node's clock
    key: str = ""  # id of the cluster key that it is signed with; empty: the cluster had none
    mac: str = ""  # hexadecimal


_json = msgspec.json.Encoder().encode
_label = msgspec.json.Decoder(SegmentLabel).decode
_rows = msgspec.msgpack.Decoder(list[tuple[int, int, bytes]]).decode


def label_of(
    entries: Sequence[LogEntry], before_term: int, *, cluster_id: bytes, node: str, version: str, at_ms: int
) -> SegmentLabel:
    """Returns the label of entries, of which there is at least one."""
    times = [at for entry in entries if (at := time_of(entry.data)) is not None]
    return SegmentLabel(
        first=entries[0].index,
        last=entries[-1].index,
        before_term=before_term,
        term=entries[-1].term,
        from_ms=min(times, default=0),
        to_ms=max(times, default=0),
        cluster_id=cluster_id.hex(),
        node=node,
        version=version,
        at_ms=at_ms,
    )


def encode(label: SegmentLabel, entries: Sequence[LogEntry], keys: Keyring | None = None) -> bytes:
    """Returns the file. With a key it is signed, so that its holder knows that a node of the cluster made it."""
    body = zlib.compress(msgspec.msgpack.encode(entries), _LEVEL)
    if keys:
        label = msgspec.structs.replace(label, key=keys.ids()[0], mac=_mac(keys.derive(PURPOSE), label, body))
    head = _json(label)
    text = _MARK + _LENGTH.pack(len(head)) + head + body
    return text + hashlib.sha256(text).digest()


def decode(raw: bytes, name: str, keys: Keyring | None = None) -> tuple[SegmentLabel, list[LogEntry]]:
    """Returns the content of a file. With `keys` it must be signed with one of them. Raises NotABackup."""
    at = len(_MARK) + _LENGTH.size
    if len(raw) < at + _SUM or not raw.startswith(_MARK):
        raise NotABackup(f"{name} is no segment of a log")
    if hashlib.sha256(memoryview(raw)[:-_SUM]).digest() != raw[-_SUM:]:
        raise NotABackup(f"{name} is damaged or cut off: its checksum is another than when it was made")
    (length,) = _LENGTH.unpack_from(raw, len(_MARK))
    body = raw[at + length : -_SUM]
    try:
        if length > _LABEL_MAX:
            raise ValueError
        label = _label(raw[at : at + length])
    except (ValueError, msgspec.DecodeError):
        raise NotABackup(f"{name} is damaged: its label cannot be read") from None
    if label.format != _FORMAT:
        raise NotABackup(f"{name} has format {label.format} of segments; this version reads {_FORMAT}")
    if keys is not None:
        ours = (_mac(key, label, body) for key in keys.derive_all(PURPOSE))
        check_signed(name, label.key, label.mac, ours, keys)
    try:
        entries = [LogEntry(*row) for row in _rows(_inflated(body))]
    except (zlib.error, ValueError, msgspec.DecodeError):
        raise NotABackup(f"{name} is damaged: its entries cannot be read") from None
    if [entry.index for entry in entries] != list(range(label.first, label.last + 1)) or entries[-1].term != label.term:
        raise NotABackup(f"{name} has other entries than it says")
    return label, entries


def _inflated(body: bytes) -> bytes:
    """Raises ValueError for what would be larger than any segment, without making it."""
    stream = zlib.decompressobj()
    found = stream.decompress(body, _RAW_MAX)
    if not stream.eof:
        raise ValueError("cut off, or too large")
    return found


def _mac(key: bytes, label: SegmentLabel, body: bytes) -> str:
    bare = msgspec.structs.replace(label, key="", mac="")
    said: list[Any] = [*msgspec.structs.astuple(bare), hashlib.sha256(body).hexdigest()]
    return hmac.digest(key, _json(said), "sha256").hex()
