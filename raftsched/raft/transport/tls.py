"""TLS 1.3 between the members, by the standard library, over connections that somebody else reads and writes.

With a cluster key alone each start of a node makes a certificate that says nothing: the proofs of the key
(`raft.transport.link.proof`) cover the one that the acceptor showed, so that both ends refuse anybody in between who
shows another certificate. With certificates of an authority (`MutualTls`) both ends must show one that names them.
"""

from __future__ import annotations

import logging
import os
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from raftsched.config.node import NodeConfig
from raftsched.errors import StartupError
from raftsched.security import certificates
from raftsched.security.certificates import Pair
from raftsched.system.clock import Clock
from raftsched.system.regular_files import open_regular
from raftsched.system.watched_files import digest_of, marks_of

_RECORD = 1 << 14  # bytes of a TLS record's content, at most (RFC 8446, 5.1)
_SHAKE_MAX_BYTES = 128 << 10  # from the other end, until the handshake is done
_FILE_MAX = 1 << 20
_REMIND_S = 3_600.0  # that a certificate ends
_SOON_DAYS = 14.0

log = logging.getLogger(__name__)


class Broken(Exception):
    """TLS ended: the other end does not speak it, is not trusted, or bytes were changed on the way."""


@dataclass(frozen=True)
class Contexts:
    """The TLS contexts of connections made at one moment."""

    dialling: ssl.SSLContext
    accepting: ssl.SSLContext
    shown: bytes  # the certificate, DER
    names: tuple[str, str] | None = None  # cluster and node by the certificate; None: it does not say
    ends_ms: int | None = None  # Unix time
    digest: bytes = b""  # of all that the files hold


class Wire(Protocol):
    """The way in which a node's connections are sealed."""

    def contexts(self) -> Contexts | None:
        """Returns the contexts of a connection that begins now; None: plain."""

    def tick(self) -> None:
        """Does what is due; to be called now and then."""


class Plain:
    """No sealing: without a key, on loopback."""

    def contexts(self) -> None:
        return None

    def tick(self) -> None:
        pass


class KeyTls:
    """Certificates of this start that nobody signed: the key handshake proves identity."""

    def __init__(self, now_ms: int) -> None:
        pair = certificates.make_ephemeral(now_ms)
        dialling, accepting = _context(server=False), _context(server=True)
        certificates.load_pair(accepting, pair)
        self._contexts = Contexts(dialling, accepting, certificates.der(pair.certificate))

    def contexts(self) -> Contexts:
        return self._contexts

    def tick(self) -> None:
        pass


class MutualTls:
    """Certificates of an authority, from files that are read again when they change: later connections use the new
    ones. Faulty files are reported, and the ones read before stay in use."""

    def __init__(
        self, node_id: str, certificate: Path, key: Path, authorities: Path, clock: Clock, report: Callable[[str], None]
    ) -> None:
        """`report` is called with a line for the operator about what is wrong. Raises StartupError."""
        self._clock = clock
        self._look_again = float("-inf")  # monotonic
        self._node_id = node_id
        self._files = (certificate, key, authorities)
        self._report = report
        self._seen = marks_of(self._files)
        self.wrong = False  # what the files hold now cannot be used
        self._contexts = self._read()

    def contexts(self) -> Contexts:
        self.reload_if_changed()
        return self._contexts

    def reload_if_changed(self, *, again: bool = False) -> bool:
        """Reads files that have changed; with `again` also where none seems to have. Returns True when there is
        something new in them."""
        seen = marks_of(self._files)
        if seen == self._seen and not again:
            return False
        self._seen, before = seen, self._contexts
        self.wrong = True
        try:
            self._contexts = self._read()
        except Exception as error:  # whatever is in the files, the node goes on
            detail = error.detail if isinstance(error, StartupError) else f"{self._files[0]}: {error}."
            self._report(f"{detail} What was read before is used until they are right.")
        else:
            self.wrong = False
            if self._contexts.digest != before.digest:
                log.info("the certificate in %s is used for new connections with other nodes", self._files[0])
                return True
        return False

    def tick(self) -> None:
        """Reads changed files, and reports once an hour that the certificate ends soon."""
        now = self._clock.monotonic()
        if now < self._look_again:
            return
        self._look_again = now + _REMIND_S
        ends_ms = self.contexts().ends_ms
        days = 0.0 if ends_ms is None else (ends_ms - self._clock.wall_ms()) / 86_400_000
        if days < _SOON_DAYS:
            when = f"ends in {days:.1f} days" if days > 0 else "has ended: no node takes it any more"
            self._report(f"the certificate in {self._files[0]} {when}; put a new one there (raftsched certs node)")

    def _read(self) -> Contexts:
        certificate, authorities = _content(self._files[0]), _content(self._files[2])
        key = _content(self._files[1], private=True)
        try:
            names = certificates.identities_of(certificate)
            shown, ends_ms = certificates.der(certificate), certificates.ends_ms(certificate)
        except ValueError:
            raise StartupError(f"{self._files[0]} is not a certificate in PEM.") from None
        mine = [found for found in names if found[1] == self._node_id]
        if not mine:
            named = ", ".join(certificates.uri(*found) for found in names) or "no node"
            raise StartupError(
                f"The certificate in {self._files[0]} names {named}; the one of this node has the URI"
                f" {certificates.uri('CLUSTER', self._node_id)}. Make it with 'raftsched certs node {self._node_id}'."
            )
        dialling, accepting = _context(server=False), _context(server=True)
        for context in (dialling, accepting):
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
            except (ssl.SSLError, ValueError):
                raise StartupError(f"{self._files[2]} holds no certificates of authorities in PEM.") from None
            try:
                certificates.load_pair(context, Pair(certificate, key))
            except (ssl.SSLError, ValueError, OSError) as error:
                raise StartupError(
                    f"The certificate in {self._files[0]} cannot be used with the key in {self._files[1]}:"
                    f" {_why(error)}."
                ) from None
        return Contexts(dialling, accepting, shown, mine[0], ends_ms, digest_of(certificate, key, authorities))


def configured(config: NodeConfig, clock: Clock, report: Callable[[str], None]) -> MutualTls | None:
    """Returns the certificates that the configuration names; None: it names none. Raises StartupError."""
    if config.raft_cert is None or config.raft_key is None or config.raft_ca is None:
        return None
    return MutualTls(config.id, config.raft_cert, config.raft_key, config.raft_ca, clock, report)


def _content(file: Path, *, private: bool = False) -> bytes:
    try:
        with open_regular(file) as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            content = opened.read(_FILE_MAX)
    except OSError as error:
        raise StartupError(f"{file} cannot be read: {error.strerror}.") from None
    if private and mode & 0o077:
        raise StartupError(f"The key {file} can be read or changed by others (mode {mode:04o}). Say: chmod 600 {file}")
    return content


def _context(*, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the key handshake, or the URI in the certificate, proves identity
    context.verify_mode = ssl.CERT_NONE
    if server:
        context.num_tickets = 0  # no session is taken up again: each connection shows its certificate
    return context


class Seal:
    """One end of a TLS connection. Outgoing bytes are given to `write`."""

    def __init__(self, contexts: Contexts, accepting: bool, write: Callable[[bytes], None]) -> None:
        self.done = False  # the handshake
        self._contexts = contexts
        self._accepting = accepting
        self._write = write
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = contexts.accepting if accepting else contexts.dialling
        self._tls = context.wrap_bio(self._in, self._out, server_side=accepting)
        self._got = 0

    def begin(self) -> None:
        """Starts the handshake, where this end begins it."""
        self._shake()

    def feed(self, data: bytes) -> bytes:
        """Returns the content of received bytes. Raises Broken."""
        self._in.write(data)
        if not self.done:
            self._got += len(data)
            if self._got > _SHAKE_MAX_BYTES:
                raise Broken("its handshake is too long")
            self._shake()
            if not self.done:
                return b""
        parts = []
        read, waiting = self._tls.read, self._in
        try:
            while waiting.pending and (part := read(_RECORD)):  # a read returns all of a record
                parts.append(part)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        except ssl.SSLError as error:
            self._flush()
            raise Broken(_why(error)) from None
        if self._out.pending:  # it may have asked for a new key
            self._flush()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def send(self, data: bytes) -> None:
        """Seals and sends. Raises Broken."""
        try:
            self._tls.write(data)  # all of it: memory takes everything
        except ssl.SSLError as error:
            raise Broken(_why(error)) from None
        self._write(self._out.read())

    @property
    def binding(self) -> bytes:
        """SHA-256 of the acceptor's certificate, as this end sees it."""
        shown = self._contexts.shown if self._accepting else self._tls.getpeercert(binary_form=True)
        return sha256(shown or b"").digest()

    def names(self, node: str) -> bool:
        """Returns whether the other end may be this node, by its certificate. True where certificates say nothing."""
        mine = self._contexts.names
        return mine is None or (mine[0], node) in certificates.identities(self._tls.getpeercert())

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
            self.done = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()  # the other end is told why
            raise Broken(_why(error)) from None
        self._flush()

    def _flush(self) -> None:
        if self._out.pending:
            self._write(self._out.read())


def _why(error: Exception) -> str:
    """Returns the library's message, without the place in its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
