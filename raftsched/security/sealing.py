"""Values of secrets, sealed with a key that comes of the cluster's: what lies in the tables, in the log and in copies
of them cannot be read without it.

AES-256-GCM under keys by HKDF-SHA256 (RFC 5869). A value is bound to its place: it cannot be put under another name.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raftsched.security.keyring import Keyring

NONCE_SIZE = 12  # bytes; random: good for 2^32 values under one key
WEBHOOKS = "webhook:"  # in place of a namespace, and no namespace is called so: secrets that webhooks sign with
ANSWERS = "answer:"  # secrets that repeated requests are answered with
_ID_SIZE = 8  # bytes, of the key, in front of the nonce


class Unsealable(Exception):
    """The reason why a value cannot be read here, for the user."""


class _Key:
    """The keys that are derived from one cluster key."""

    def __init__(self, cluster_key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # who has no key needs none of it

        root = hmac.new(b"raftsched secrets", cluster_key, hashlib.sha256).digest()
        self.aead = AESGCM(_expand(root, b"seal"))
        self.digest_key = _expand(root, b"digest")
        self.id = _expand(root, b"id")[:_ID_SIZE]


class Sealer:
    """Seals with the first key of a cluster, and opens what was sealed with any. `keys`: at least one."""

    def __init__(self, keys: Keyring) -> None:
        found = [_Key(key) for key in keys]
        self._first = found[0]
        self.key = keys.ids()[0]  # of what it seals with, for people
        self._by_id = {key.id: key for key in found}

    def seal(self, namespace: str, name: str, value: bytes) -> tuple[bytes, bytes, bytes]:
        """Returns nonce, sealed value, and a digest by which the same value of the same secret is known again."""
        return self._seal(_place(namespace, name), value)

    def open(self, namespace: str, name: str, nonce: bytes, sealed: bytes) -> bytes:
        """Raises Unsealable."""
        return self._open(_place(namespace, name), nonce, sealed)

    def seal_whole(self, kind: str, name: str, value: bytes) -> bytes:
        """Returns the sealed value in one piece, without a digest."""
        nonce, sealed, _ = self.seal(kind, name, value)
        return nonce + sealed

    def current(self, nonce: bytes) -> bool:
        """Returns True when the value with this nonce is sealed with the key in use."""
        return nonce[:_ID_SIZE] == self._first.id

    def knows(self, nonce: bytes) -> bool:
        """Returns True when the value with this nonce was sealed with one of these keys."""
        return nonce[:_ID_SIZE] in self._by_id

    def _seal(self, place: bytes, value: bytes) -> tuple[bytes, bytes, bytes]:
        key = self._first
        nonce = os.urandom(NONCE_SIZE)
        digest = hmac.new(key.digest_key, place + b"\0" + value, hashlib.sha256).digest()
        return key.id + nonce, key.aead.encrypt(nonce, value, place), digest

    def _open(self, place: bytes, nonce: bytes, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        key = self._by_id.get(nonce[:_ID_SIZE])
        if key is None:
            raise Unsealable("it was put under another cluster key; put it again")
        try:
            return key.aead.decrypt(nonce[_ID_SIZE:], sealed, place)
        except (InvalidTag, ValueError):
            raise Unsealable("what is kept of it is damaged; put it again") from None


def open_value(sealer: Sealer | None, namespace: str, name: str, nonce: bytes, value: bytes) -> bytes:
    """Returns the value; as it is stored when it was not sealed. Raises Unsealable."""
    if not nonce:
        return value
    if sealer is None:
        raise Unsealable("it is sealed with the cluster key, which this node was not given (--cluster-key-file)")
    return sealer.open(namespace, name, nonce, value)


def open_whole(sealer: Sealer | None, kind: str, name: str, whole: bytes) -> bytes:
    """Returns the value of `seal_whole`. Raises Unsealable."""
    cut = _ID_SIZE + NONCE_SIZE
    return open_value(sealer, kind, name, whole[:cut], whole[cut:])


def _expand(root: bytes, info: bytes) -> bytes:
    """Returns the first 32 bytes of HKDF-Expand."""
    return hmac.new(root, info + b"\1", hashlib.sha256).digest()


def _place(namespace: str, name: str) -> bytes:
    return f"{namespace}/{name}".encode()
