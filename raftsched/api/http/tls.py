"""The TLS files of the API: certificate, key and the CA of clients, read again when they change.

A file is read into memory once, checked there, and only then used: a pair that is half replaced, or does not fit
together, changes nothing. Every change makes a whole new context, so that a CA that is taken away is gone for new
connections; those that are open stay as they are.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import ssl
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from raftsched.config.node import NodeConfig
from raftsched.errors import StartupError
from raftsched.security.certificates import Pair, load_pair, words_of
from raftsched.system.clock import Clock
from raftsched.system.regular_files import open_regular, read_regular
from raftsched.system.watched_files import Made, WatchedFiles, digest_of, marks_of

log = logging.getLogger(__name__)

FILE_MAX = 1 << 20  # bytes
SOON_DAYS = 14  # from here on it is said that a certificate expires
SAY_EVERY_S = 60.0  # what is wrong with the files
REMIND_EVERY_S = 3_600.0  # that a certificate expires
_DAY_MS = 86_400_000
# For TLS 1.2 (RFC 9325, section 4.2): what has forward secrecy and authenticates what it encrypts.
_CIPHERS_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Unusable(Exception):
    """The files are not what they should be: one line."""


class TlsFiles(NamedTuple):
    cert: Path  # the certificate, and those between it and its CA, in PEM
    key: Path  # its private key, in PEM, not encrypted
    client_ca: Path | None = None  # CAs of clients; None: any client may speak


@dataclass(frozen=True)
class Shown:
    """The certificate in use. `names`: host names and addresses that it is for."""

    context: ssl.SSLContext
    names: tuple[str, ...]
    expires_ms: int  # the first of the certificates in the file to do so, Unix time
    digest: bytes = b""  # of all that the files hold
    words: str = ""  # of the certificate, for the operator


class Certificates:
    """`context` is for the next connection."""

    def __init__(self, files: TlsFiles, clock: Clock) -> None:
        """Raises StartupError."""
        self.files = files
        self._clock = clock
        self._seen = marks_of(files)
        try:
            self._shown = read(files)
        except Unusable as error:
            raise StartupError(f"TLS: {error}.") from None
        self._failing = False
        self._said_at: float | None = None
        self._reminded_at: float | None = None

    @property
    def context(self) -> ssl.SSLContext:
        return self._shown.context

    @property
    def names(self) -> tuple[str, ...]:
        return self._shown.names

    @property
    def expires_ms(self) -> int:
        """Returns when the certificate expires, Unix time."""
        return self._shown.expires_ms

    @property
    def days_left(self) -> float:
        """Returns the days until the certificate expires; negative when it has."""
        return (self._shown.expires_ms - self._clock.wall_ms()) / _DAY_MS

    def reload_if_changed(self, *, again: bool = False) -> bool:
        """Takes what is in the files when it is new; True when there is something new. What cannot be used is said, at
        most once a minute, and what there was goes on. `again`: they are read where they seem to be the same, too, and
        what is wrong is said in any case. Reads files: for a thread."""
        marks = marks_of(self.files)
        if marks == self._seen and not self._failing and not again:
            return False
        try:
            shown = read(self.files)
            if shown.expires_ms <= self._clock.wall_ms() < self._shown.expires_ms:
                raise Unusable(f"the certificate in {self.files.cert} has expired")
        except Unusable as error:
            self._failing = True
            now = self._clock.monotonic()
            if again or self._said_at is None or now - self._said_at >= SAY_EVERY_S:
                self._said_at = now
                log.warning("TLS: %s; the certificate that was read before stays in use.", error)
            return False
        self._seen, self._failing, self._said_at = marks, False, None
        if shown.digest == self._shown.digest:
            return False
        self._shown, self._reminded_at = shown, None
        log.info(
            "TLS: %s was read again: it is for %s, %s",
            self.files.cert, ", ".join(shown.names) or "nobody", shown.words,
        )  # fmt: skip
        return True

    @property
    def wrong(self) -> bool:
        """Returns whether what the files hold now is not in use, since it cannot be."""
        return self._failing

    def remind(self) -> None:
        """Says that the certificate expires soon, at most once an hour."""
        left = self.days_left
        now = self._clock.monotonic()
        if left >= SOON_DAYS or (self._reminded_at is not None and now - self._reminded_at < REMIND_EVERY_S):
            return
        self._reminded_at = now
        when = f"expires in {left:.1f} days" if left > 0 else "has expired"
        log.warning("TLS: the certificate in %s %s; put a new one there, it is read at once.", self.files.cert, when)

    def is_for(self, host: str) -> bool:
        """Returns whether a client that asks for this host name or address accepts the certificate."""
        return any(_matches(name, host) for name in self.names)


def read(files: TlsFiles) -> Shown:
    """Raises Unusable."""
    cert, key = _bytes(files.cert, "certificate"), _bytes(files.key, "key")
    client_ca = None if files.client_ca is None else _bytes(files.client_ca, "CA of clients")
    names, expires_ms = _of_certificate(cert, files.cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS_1_2)
    context.set_alpn_protocols(["http/1.1"])
    # No session is taken up again: clients show their certificate each time, and no key outlives a connection.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    try:
        load_pair(context, Pair(cert, key))
    except (ssl.SSLError, ValueError, OSError) as error:
        raise Unusable(_why_not(error, files)) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError):
            raise Unusable(f"{files.client_ca} holds no certificate of a CA in PEM") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return Shown(context, names, expires_ms, digest_of(cert, key, client_ca), words_of(cert))


def _text(pem: bytes) -> str:
    """Returns certificates as the library takes them: comments between them may be in any encoding, and an empty file
    is not the authorities of the system."""
    return pem.decode("ascii", "ignore") + "\n"


def _bytes(path: Path, what: str) -> bytes:
    try:
        with open_regular(path) as file:
            content = file.read(FILE_MAX + 1)
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise Unusable(f"the {what} {path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(content) > FILE_MAX:
        raise Unusable(f"the {what} {path} is no PEM file: it has more than {FILE_MAX} bytes")
    if what == "key" and mode & 0o007:
        raise Unusable(f"the key {path} can be read by everybody on this machine; chmod 600 {path}")
    return content


def _of_certificate(pem: bytes, path: Path) -> tuple[tuple[str, ...], int]:
    """Returns the names it is for, and when the first of the chain expires (ms)."""
    from cryptography import x509

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of certificates that are odd; OpenSSL judges them
            chain = x509.load_pem_x509_certificates(pem)
            names = names_of(chain[0])
            expires = min(int(c.not_valid_after_utc.timestamp()) * 1000 for c in chain)
    except ValueError:
        raise Unusable(f"{path} holds no certificate in PEM") from None
    return names, expires


def names_of(certificate: object) -> tuple[str, ...]:
    """The host names and addresses that a certificate of the cryptography package is for (RFC 6125: the subject's
    common name does not count)."""
    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (
        *found.get_values_for_type(x509.DNSName),
        *(str(address) for address in found.get_values_for_type(x509.IPAddress)),
    )


def _matches(name: str, host: str) -> bool:
    """RFC 6125, section 6.4: a * stands for the whole of the first label, and for no address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        wanted, given = host.lower().rstrip("."), name.lower()
        return wanted == given or (given.startswith("*.") and wanted.partition(".")[2] == given[2:])
    try:
        return ipaddress.ip_address(name) == address
    except ValueError:
        return False


def _why_not(error: Exception, files: TlsFiles) -> str:
    reason = getattr(error, "reason", None) or ""
    if "encrypted" in str(error):
        return f"the key {files.key} is encrypted, and nobody is there to say its password; keep it as it is, mode 600"
    if "KEY_VALUES_MISMATCH" in reason:
        return f"the key {files.key} is not that of the certificate {files.cert}"
    if "KEY_TOO_SMALL" in reason or "MD_TOO_WEAK" in reason:
        return f"the certificate {files.cert} is too weak ({reason.lower().replace('_', ' ')})"
    return f"{files.cert} and {files.key} are no pair in PEM ({reason.lower().replace('_', ' ') or error})"


class PeerTrust:
    """The authorities by which this node accepts another when it calls its API, and the certificate it shows there.

    Trusted is `ca` alone where it is given; else the system's authorities, and `raft_ca` (of `raftsched certs`).
    The first of `shown` that is given is shown to nodes that ask for a certificate."""

    def __init__(self, ca: Path | None, raft_ca: Path | None, shown: Sequence[tuple[Path | None, Path | None]]) -> None:
        self._ca = ca
        self._raft_ca = raft_ca
        self._shown = next(((c, k) for c, k in shown if c is not None and k is not None), None)
        self._files: WatchedFiles[Made[ssl.SSLContext]] | None = None

    def context(self, *, again: bool = False) -> ssl.SSLContext:
        """Returns the context of the files as they are, or were when they could last be used; what is wrong with them
        is said once. `again`: they are read where they seem to be the same, too. Raises OSError, ValueError where they
        could never be used. Reads files: for a thread."""
        if self._files is None:
            files = (self._ca, self._raft_ca, *(self._shown or ()))
            self._files = WatchedFiles(files, self._read, unusable=(OSError, ValueError), warn=self._warn)
        else:
            self._files.reload_if_changed(again=again)
        return self._files.value.value

    def reload_if_changed(self) -> bool:
        """Reads the files again, also where they seem to be the same. Returns True when there is something new in
        them, or wrong with them, which is said."""
        files = [str(file) for file in (self._ca, self._raft_ca, *(self._shown or ())) if file is not None]
        if self._files is None or not files:
            return False  # who was never called reads them when that is needed
        if not self._files.reload_if_changed(again=True, aloud=True):
            return self._files.wrong is not None
        log.info("calls to other nodes: %s were read again", ", ".join(files))
        return True

    def _read(self) -> Made[ssl.SSLContext]:
        ca, raft_ca = (None if file is None else read_regular(file) for file in (self._ca, self._raft_ca))
        pair = None if self._shown is None else Pair(*(read_regular(path) for path in self._shown))
        context = ssl.create_default_context(cadata=None if ca is None else _text(ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if ca is None and raft_ca is not None:
            context.load_verify_locations(cadata=_text(raft_ca))
        if pair is not None:
            load_pair(context, pair)
        return Made(context, digest_of(ca, raft_ca, *(pair or ())))

    def _warn(self, error: Exception) -> None:
        if self._shown is not None and "KEY_VALUES_MISMATCH" in str(error):
            why = f"the key {self._shown[1]} is not that of the certificate {self._shown[0]}"
        elif isinstance(error, OSError) and error.filename is not None:
            why = f"{error.filename} cannot be read: {(error.strerror or str(error)).lower()}"
        else:
            files = (self._ca, self._raft_ca, *(self._shown or ()))
            why = f"{', '.join(str(file) for file in files if file is not None)} cannot be used: {error}"
        log.warning("calls to other nodes: %s; what was read before stays in use", why)


def certificates_of(config: NodeConfig, clock: Clock) -> Certificates | None:
    """None: the node speaks plain HTTP. Raises StartupError."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    found = Certificates(TlsFiles(config.tls_cert, config.tls_key, config.tls_client_ca), clock)
    host = config.advertise_http.host
    if not found.is_for(host):
        log.warning(
            "TLS: the certificate %s is for %s, and not for %s, which is what others call this node (--advertise-http);"
            " clients and other nodes that ask for it by that name will refuse it",
            config.tls_cert, ", ".join(found.names) or "nobody", host,
        )  # fmt: skip
    return found


def peer_trust(config: NodeConfig) -> PeerTrust:
    # That of Raft first: what a public authority signed for a server is no certificate of a client.
    shown = [(config.raft_cert, config.raft_key), (config.tls_cert, config.tls_key)]
    return PeerTrust(config.tls_ca, config.raft_ca, shown)
