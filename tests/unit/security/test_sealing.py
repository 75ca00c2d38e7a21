"""Sealed values: read back with the same key and under the same name only."""

from __future__ import annotations

import pytest

from raftsched.security.keyring import Keyring
from raftsched.security.sealing import Sealer, Unsealable, open_value

KEY = Keyring(b"k" * 32)


def test_what_is_sealed_is_read_back_by_who_has_the_key() -> None:
    nonce, sealed, digest = Sealer(KEY).seal("d", "pw", b"hunter2")
    assert b"hunter2" not in nonce + sealed + digest
    assert open_value(Sealer(KEY), "d", "pw", nonce, sealed) == b"hunter2"
    with pytest.raises(Unsealable, match="another cluster key"):
        open_value(Sealer(Keyring(b"other" * 8)), "d", "pw", nonce, sealed)
    with pytest.raises(Unsealable, match="cluster-key-file"):
        open_value(None, "d", "pw", nonce, sealed)
    assert open_value(None, "d", "pw", b"", b"plain") == b"plain"


@pytest.mark.parametrize(("namespace", "name"), [("d", "other"), ("o", "pw")])
def test_not_under_another_name(namespace: str, name: str) -> None:
    sealer = Sealer(KEY)
    nonce, sealed, _ = sealer.seal("d", "pw", b"hunter2")
    with pytest.raises(Unsealable, match="damaged"):
        sealer.open(namespace, name, nonce, sealed)


def test_damage_is_seen() -> None:
    sealer = Sealer(KEY)
    nonce, sealed, _ = sealer.seal("d", "pw", b"hunter2")
    for broken in (sealed[:-1] + bytes((sealed[-1] ^ 1,)), sealed[:3], b""):
        with pytest.raises(Unsealable):
            sealer.open("d", "pw", nonce, broken)
    with pytest.raises(Unsealable):
        sealer.open("d", "pw", nonce[:10], sealed)


def test_each_time_otherwise_and_known_again_by_the_digest() -> None:
    first, second = (Sealer(KEY).seal("d", "pw", b"hunter2") for _ in range(2))
    assert first[:2] != second[:2]
    assert first[2] == second[2]
    assert first[2] != Sealer(KEY).seal("d", "pw", b"hunter3")[2]
    assert first[2] != Sealer(KEY).seal("d", "pw2", b"hunter2")[2]
