"""Backups that only one person can read: a file sealed for a recipient, who opens it with their identity."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from raftsched.errors import StartupError
from raftsched.system.regular_files import open_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

MAGIC = b"raftsched sealed backup 1\n"
RECIPIENT, IDENTITY = "rsr_", "rsi_"
CHUNK = 64 * 1024  # bytes, before they are sealed
_TAG = 16
_KEY = 32
_HEADER = len(MAGIC) + _KEY
_INFO = b"raftsched sealed backup"
_FILE_MAX = 4096  # bytes of an identity's file


class NotOpened(ValueError):
    """The reason, in one line, why a sealed backup cannot be read."""


class OtherRecipient(NotOpened):
    """Another identity may open it."""


def new_identity() -> tuple[str, str]:
    """Returns a new identity, which opens backups, and its recipient, for whom they are sealed."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate().private_bytes_raw()
    identity = _text(IDENTITY, private)
    return identity, recipient_of(identity)


def recipient_of(identity: str) -> str:
    """Returns the recipient of an identity. Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.from_private_bytes(_bytes(IDENTITY, identity, "an identity"))
    return _text(RECIPIENT, private.public_key().public_bytes_raw())


def read_identity(file: Path) -> str:
    """Returns the identity in a file that only its owner can read. Raises StartupError."""
    try:
        with open_regular(file) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            raw = opened.read(_FILE_MAX)
    except OSError as error:
        raise StartupError(f"The identity {file} cannot be read: {error.strerror}.") from None
    if mode & 0o077:
        raise StartupError(f"The identity {file} can be read or changed by others. Say: chmod 600 {file}")
    lines = [line.partition(b"#")[0].strip() for line in raw.splitlines()]
    found = [line.decode("ascii", "replace") for line in lines if line]
    try:
        if len(found) != 1:
            raise ValueError("has no identity in it, or several")
        recipient_of(found[0])
    except ValueError as error:
        why = f"The identity file {file} {error}; one is made by: raftsched keys recipient --file FILE"
        raise StartupError(why) from None
    return found[0]


class Sealing:
    """A file to write into, which seals what is written for a recipient and writes it to `out`. `end` ends it: without
    that it is cut off. Raises ValueError for what is no recipient."""

    def __init__(self, out: BinaryIO, recipient: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

        public = _bytes(RECIPIENT, recipient, "a recipient")
        once = X25519PrivateKey.generate()
        self._out = out
        self._header = MAGIC + once.public_key().public_bytes_raw()
        self._cipher = _cipher(once.exchange(X25519PublicKey.from_public_bytes(public)), self._header, public)
        self._number = 0
        self._held = bytearray()
        out.write(self._header)

    def write(self, piece: bytes) -> int:
        self._held += piece
        while len(self._held) > CHUNK:  # the last one, which may be whole, is for `end`
            self._seal(bytes(self._held[:CHUNK]), last=False)
            del self._held[:CHUNK]
        return len(piece)

    def end(self) -> None:
        self._seal(bytes(self._held), last=True)
        self._held.clear()

    def _seal(self, chunk: bytes, *, last: bool) -> None:
        self._out.write(self._cipher.encrypt(_nonce(self._number, last=last), chunk, self._header))
        self._number += 1


def is_sealed(file: Path) -> bool:
    """Raises OSError."""
    with open_regular(file) as opened:
        return opened.read(len(MAGIC)) == MAGIC


def opened(source: BinaryIO, identity: str) -> Iterator[bytes]:
    """Gives the pieces of a sealed file, each as soon as it is known to be right. Raises NotOpened, OSError."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    header = source.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(MAGIC):
        raise NotOpened("is not a sealed backup, or is cut off in its first bytes")
    private = X25519PrivateKey.from_private_bytes(_bytes(IDENTITY, identity, "an identity"))
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(header[len(MAGIC) :]))
    except ValueError:
        raise NotOpened("is damaged: its first bytes are no key") from None
    cipher = _cipher(shared, header, private.public_key().public_bytes_raw())
    number, chunk = 0, source.read(CHUNK + _TAG)
    while True:
        following = source.read(CHUNK + _TAG)
        try:
            yield cipher.decrypt(_nonce(number, last=not following), chunk, header)
        except (InvalidTag, ValueError):
            raise _why(cipher, number, chunk, header, last=not following) from None
        if not following:
            return
        number, chunk = number + 1, following


def _why(cipher: ChaCha20Poly1305, number: int, chunk: bytes, header: bytes, *, last: bool) -> NotOpened:
    from cryptography.exceptions import InvalidTag

    at = len(header) + number * (CHUNK + _TAG)
    if last and number and len(chunk) < _TAG:
        return NotOpened("is cut off")
    try:
        cipher.decrypt(_nonce(number, last=not last), chunk, header)
    except (InvalidTag, ValueError):
        if number == 0:
            return OtherRecipient(
                "was sealed for another recipient than this identity, or is damaged in its first bytes"
            )
        return NotOpened(f"is damaged, or cut off, at byte {at:,} or right after it")
    return NotOpened("is cut off" if last else f"has something behind its end, from byte {at + len(chunk):,} on")


def _cipher(shared: bytes, header: bytes, public: bytes) -> ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return ChaCha20Poly1305(HKDF(SHA256(), 32, header[len(MAGIC) :] + public, _INFO).derive(shared))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes((last,))


def _text(prefix: str, raw: bytes) -> str:
    return prefix + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(prefix: str, text: str, what: str) -> bytes:
    """Raises ValueError."""
    try:
        if not text.startswith(prefix):
            raise ValueError
        raw = base64.b64decode(text.removeprefix(prefix) + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _KEY:
        raise ValueError(f"is not {what}: that begins with {prefix}")
    return raw
