"""Segments of the log: what is in a file, and what is refused."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from raftsched.core.entry import encode_entry, time_of
from raftsched.security.keyring import Keyring
from raftsched.store import LogEntry, segment
from raftsched.store.backup import NotABackup
from raftsched.store.segment import SegmentLabel, decode, encode, label_of

KEYS = Keyring(b"of these tests, as many bytes as others have")
# The leader's clock went back at 8, and what 9 has is no entry.
ENTRIES = [LogEntry(n, 3, encode_entry(at, [])) for n, at in ((6, 5_000), (7, 9_000), (8, 4_000))] + [
    LogEntry(9, 4, b"\xc1")
]


def label() -> SegmentLabel:
    return label_of(ENTRIES, 2, cluster_id=b"\1" * 16, node="n1", version="1", at_ms=7)


def test_it_holds_the_entries_and_says_which() -> None:
    raw = encode(label(), ENTRIES, KEYS)
    found, entries = decode(raw, "it", KEYS)
    assert entries == ENTRIES
    assert (found.first, found.last, found.before_term, found.term) == (6, 9, 2, 4)
    assert (found.from_ms, found.to_ms, found.cluster_id, found.key) == (4_000, 9_000, "01" * 16, KEYS.ids()[0])
    assert decode(raw, "it")[1] == ENTRIES
    assert time_of(b"\xc1") is None


def again(raw: bytes) -> bytes:
    return raw + hashlib.sha256(raw).digest()


def made(**changed: object) -> bytes:
    """A file whose label says something else, with the right checksum."""
    return encode(msgspec.structs.replace(label(), **changed), ENTRIES)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "is no segment of a log"),
        (b"hello" * 99, "is no segment of a log"),
        (encode(label(), ENTRIES)[:-1], "is damaged or cut off"),
        (encode(label(), ENTRIES) + b"x", "is damaged or cut off"),
        (again(b"raftsched segment\n" + b"\xff\xff\xff\xff" + b"{}"), "its label cannot be read"),
        (again(b"raftsched segment\n" + b"\0\0\0\2" + b"{}" + b"x"), "its label cannot be read"),
        (made(format=2), "has format 2 of segments; this version reads 1"),
        (made(first=5), "has other entries than it says"),
        (made(last=8), "has other entries than it says"),
        (made(term=3), "has other entries than it says"),
    ],
)
def test_files_that_are_not_whole_are_refused(raw: bytes, why: str) -> None:
    with pytest.raises(NotABackup, match=why):
        decode(raw, "it")


def test_who_signed_it_is_checked() -> None:
    with pytest.raises(NotABackup, match="is not signed"):
        decode(encode(label(), ENTRIES), "it", KEYS)
    with pytest.raises(NotABackup, match="not among these"):
        decode(encode(label(), ENTRIES, KEYS), "it", Keyring(b"another key, with as many bytes in it"))
    signed, _ = decode(encode(label(), ENTRIES, KEYS), "it")
    forged = encode(msgspec.structs.replace(signed, to_ms=1), ENTRIES)  # keeps what it was signed with
    with pytest.raises(NotABackup, match="was changed since it was signed"):
        decode(forged, "it", KEYS)


def test_what_would_be_larger_than_any_segment_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_RAW_MAX", 1_000_000)
    large = [LogEntry(6, 3, bytes(2_000_000))]
    raw = encode(label_of(large, 2, cluster_id=b"\1" * 16, node="n1", version="1", at_ms=7), large)
    assert len(raw) < 10_000
    with pytest.raises(NotABackup, match="its entries cannot be read"):
        decode(raw, "it")
