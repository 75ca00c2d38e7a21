"""The cluster's keys, with which nodes prove their membership, and from which the keys for sealing and signing are
derived.

A key file has one key a line, as hex or base64, the one in use first. The others are accepted as well and open what was
sealed with them: that is how a key is changed without a stop (docs/secrets.md). A key is the text of its line: the same
bytes written in another way are another key.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from raftsched.errors import StartupError
from raftsched.system.regular_files import open_regular

KEY_FILE = "cluster.key"  # in the data directory of a node that made its own
KEY_BYTES = 32  # of randomness, of a key that is made here
KEY_BITS_MIN = 128
KEYS_MAX = 8  # in one file: each proof of a peer is tried against all of them
FILE_MAX = 64 * 1024  # bytes
_HEX = re.compile(rb"[0-9a-fA-F]+")
_BASE64 = re.compile(rb"([A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}")
_DISTINCT_MIN = 8  # characters: 32 random hex digits practically never have fewer
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_OF_ROOT = _OTHERS & ~stat.S_IRGRP
_SALT = b"raftsched"
_MAKE = "raftsched keys new --file"


class Keyring:
    """An unchanging list of keys. An empty one stands for a cluster without a key: it is false, its `first` is empty,
    and nothing can be derived."""

    __slots__ = ("_keys",)

    def __init__(self, *keys: bytes) -> None:
        self._keys = tuple(dict.fromkeys(keys))
        if b"" in self._keys:
            raise ValueError("a key is not empty")

    @property
    def first(self) -> bytes:
        """The key that is proven, sealed and signed with; empty when there is none."""
        return self._keys[0] if self._keys else b""

    def __iter__(self) -> Iterator[bytes]:
        """Gives all keys that are accepted, the first one first."""
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyring) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"Keyring({', '.join(key_id(key) for key in self._keys)})"

    def derive(self, purpose: str) -> bytes:
        """Returns 32 bytes of the first key for this purpose alone. Raises ValueError without a key."""
        if not self._keys:
            raise ValueError("there is no key to derive from")
        return derive(self._keys[0], purpose)

    def derive_all(self, purpose: str) -> tuple[bytes, ...]:
        """Returns 32 bytes for this purpose of every key, in order."""
        return tuple(derive(key, purpose) for key in self._keys)

    def ids(self) -> tuple[str, ...]:
        """Returns the ids of all keys, in order."""
        return tuple(key_id(key) for key in self._keys)


def derive(key: bytes, purpose: str) -> bytes:
    """32 bytes by HKDF-SHA256 (RFC 5869) with the purpose as info: who has them knows nothing of the key."""
    root = hmac.digest(_SALT, key, "sha256")
    return hmac.digest(root, purpose.encode() + b"\1", "sha256")


def key_id(key: bytes) -> str:
    """Returns eight hex digits that reveal nothing of the key."""
    return derive(key, "id").hex()[:8]


def new_key() -> bytes:
    """Returns a random key as it is written into a file."""
    return secrets.token_hex(KEY_BYTES).encode()


# ---------------------------------------------------------------- files


def read_keyring(file: Path) -> Keyring:
    """Returns the keys of a file that only its owner can read: one a line; what follows a # is a comment.

    A file of root may be readable for its group as well: that is how a secret comes to a node that is not root, as a
    volume of Kubernetes for instance, whose files are always root's.

    Raises StartupError: not readable, readable by others, without a key, with a weak one.
    """
    try:
        with open_regular(file) as opened:
            found = os.fstat(opened.fileno())
            raw = opened.read(FILE_MAX + 1)
    except OSError as error:
        raise StartupError(f"The cluster key file {file} cannot be read: {error.strerror}.") from None
    mode = found.st_mode
    if mode & (_OTHERS if found.st_uid != 0 else _OTHERS_OF_ROOT):
        raise StartupError(
            f"The cluster key file {file} can be read or changed by others (mode {stat.S_IMODE(mode):04o}): who has the"
            f" key is a member of the cluster. Say: chmod 600 {file}"
        )
    if len(raw) > FILE_MAX:
        raise StartupError(f"The cluster key file {file} is larger than {FILE_MAX >> 10} KiB; it has one key a line.")
    try:
        return parse_keyring(raw)
    except ValueError as error:
        raise StartupError(f"The cluster key file {file} {error}. Make a right one: {_MAKE} NEW-FILE") from None


def parse_keyring(raw: bytes) -> Keyring:
    """Returns the keys in the text of a key file. Raises ValueError with what is wrong, to follow the file's name."""
    keys: list[bytes] = []
    for number, line in enumerate(raw.splitlines(), 1):
        key = line.partition(b"#")[0].strip()
        if not key:
            continue
        wrong = wrong_in_key(key)
        if wrong is not None:
            raise ValueError(f"is wrong in line {number}: the key {wrong}")
        keys.append(key)
    if not keys:
        raise ValueError("has no key in it")
    if len(set(keys)) > KEYS_MAX:
        raise ValueError(f"has {len(set(keys))} keys; at most {KEYS_MAX} are accepted at one time")
    return Keyring(*keys)


def wrong_in_key(key: bytes) -> str | None:
    """Returns why a text is no key, never quoting it; None when it can be one. A key that a person thought up is
    refused as far as that can be told: at least 128 bits by what the text can hold, as hex or base64 of something
    random."""
    if _HEX.fullmatch(key):
        bits, kind = 4 * len(key), "hex"
    elif _BASE64.fullmatch(key) and _decodes(key):
        bits, kind = 6 * len(key.rstrip(b"=")), "base64"
    else:
        return f"is neither hex nor base64 of at least {KEY_BITS_MIN} bits"
    if bits < KEY_BITS_MIN:
        return f"can hold {bits} bits at most as {kind}; at least {KEY_BITS_MIN} are needed"
    if len(set(key)) < _DISTINCT_MIN:
        return "repeats a few characters; it must be random"
    if kind == "base64" and (key == key.lower() or key == key.upper()):
        return "looks like words, not like base64 of random bytes; it must be random"
    return None


def _decodes(key: bytes) -> bool:
    """Returns True when it is the base64 of something, with or without its padding."""
    bare = key.rstrip(b"=")
    if b"=" in key and len(key) % 4:
        return False
    try:
        found = base64.b64decode(bare.translate(bytes.maketrans(b"-_", b"+/")) + b"=" * (-len(bare) % 4), validate=True)
    except binascii.Error:
        return False
    return base64.b64encode(found).rstrip(b"=").translate(bytes.maketrans(b"+/", b"-_")) == bare.translate(
        bytes.maketrans(b"+/", b"-_")
    )


def own_key(data: Path) -> Keyring:
    """Returns the keys in a node's data directory, and makes one when there is none.

    The directory exists, and one process at a time calls this. The key is there whole or not at all, and it is on the
    disk before this returns. Raises StartupError.
    """
    file = data / KEY_FILE
    try:
        if not file.exists():
            write_new(file, new_key())
        else:
            _sync(file)  # it may have been made just before a crash
            _sync(data)
            for left in data.glob(f".{KEY_FILE}.*"):
                left.unlink(missing_ok=True)
    except OSError as error:
        raise StartupError(f"The cluster key cannot be kept in {file}: {error.strerror}.") from None
    return read_keyring(file)


def write_new(file: Path, key: bytes) -> None:
    """Writes a new key file with this key, for its owner alone: written beside, flushed, and linked to its name, which
    is never taken from a file that is there. Raises FileExistsError, OSError."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as new:
            new.write(key + b"\n")
            new.flush()
            os.fsync(new.fileno())
        os.link(beside, file)
    finally:
        beside.unlink(missing_ok=True)
    _sync(file.parent)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
