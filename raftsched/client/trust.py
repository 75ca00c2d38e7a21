"""Decides which servers a client trusts by TLS, what it shows them, and what it never sends unencrypted.

Certificates are always verified, with the host name that was asked for. `insecure` does not change that: it lets a
token go to another machine by plain HTTP, where anybody on the way can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from raftsched.client.errors import ClientError
from raftsched.client.servers import Server

if TYPE_CHECKING:
    import ssl  # it takes a third of the time of a short command

LOOK_S = 3.0  # for the certificate of a server that was not trusted, to say what is wrong with it
_CA = "--ca-file FILE (RAFTSCHED_CA_FILE, ca_file=)"
_SHOW = "--client-cert FILE --client-key FILE (RAFTSCHED_CLIENT_CERT and _KEY, client_cert= and client_key=)"
_YES = frozenset({"1", "true", "yes", "on"})
_UNKNOWN_CA = frozenset({2, 18, 19, 20, 21})  # of X509_verify_cert_error_string(3)
_NOT_YET, _EXPIRED = 9, 10
_MISMATCH = frozenset({62, 64})  # of the host name, of the address


class Trust(NamedTuple):
    """Files are PEM. Without `ca_file` the authorities are those of the system."""

    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None  # None: in the file of the certificate
    insecure: bool = False

    def over(self, other: Trust) -> Trust:
        """Returns this one, completed from the other."""
        if self.client_cert is None:
            certificate = other.client_cert, other.client_key
        else:
            certificate = self.client_cert, self.client_key
        return Trust(self.ca_file or other.ca_file, *certificate, self.insecure or other.insecure)

    def context(self) -> ssl.SSLContext:
        """Returns a new context. Raises ClientError "untrusted" when a file cannot be used."""
        import ssl

        from raftsched.system.regular_files import require_regular

        try:
            context = ssl.create_default_context(cadata=_authorities(self.ca_file) if self.ca_file else None)
        except (OSError, ValueError) as error:
            raise untrusted(f"the CA file {self.ca_file} cannot be used: {_said(error)}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self.client_cert is not None:
            try:
                for file in (self.client_cert, self.client_key):
                    if file is not None:
                        require_regular(file)
                context.load_cert_chain(self.client_cert, self.client_key, password=_no_password)
            except (OSError, ValueError) as error:
                files = " and ".join(f for f in (self.client_cert, self.client_key) if f)
                raise untrusted(f"the client certificate {files} cannot be used: {_said(error)}") from None
        return context

    def marks(self) -> tuple[object, ...]:
        """Differ when a file was changed or replaced."""
        from raftsched.system.watched_files import marks_of

        return marks_of((self.ca_file, self.client_cert, self.client_key))

    def hint(self, server: Server) -> str:
        """Returns an addition to the error of a connection that broke before an answer came. With TLS 1.3 a server that
        refuses the client's certificate hangs up only after the client has begun to send, and the reason may get lost.
        """
        if server.scheme != "https":
            return ""
        if self.client_cert is None:
            return f" (if it wants a client certificate: {_SHOW})"
        return " (perhaps it does not take the client certificate)"

    def explain(self, error: Exception, server: Server) -> str:
        """Returns what is wrong between this client and a server, and what would be right. Asks the server for its
        certificate when that is the cause; sends nothing else."""
        import ssl

        if not isinstance(error, ssl.SSLCertVerificationError):
            return _of_handshake(error)
        if error.verify_code in _UNKNOWN_CA:
            other = f"is not signed by an authority in {self.ca_file}" if self.ca_file else "is of an unknown authority"
            return f"is not trusted: its certificate {other}; say {_CA} of the authority that signed it"
        names, expires = _seen(server)
        if error.verify_code == _EXPIRED:
            return f"is not trusted: its certificate has expired{expires and f', on {expires}'}; it needs a new one"
        if error.verify_code == _NOT_YET:
            return "is not trusted: its certificate is not valid yet; is the clock of this machine right?"
        if error.verify_code in _MISMATCH:
            known = f" but for {names}" if names else ""
            return f"is not trusted: its certificate is not for {server.host}{known}; ask for it by a name that it has"
        return f"is not trusted: {error.verify_message}"


SYSTEM = Trust()  # what the system trusts, and nothing is shown


def from_environment(environ: Mapping[str, str]) -> Trust:
    """RAFTSCHED_CA_FILE, RAFTSCHED_CLIENT_CERT, RAFTSCHED_CLIENT_KEY, RAFTSCHED_INSECURE."""
    return Trust(
        environ.get("RAFTSCHED_CA_FILE") or None,
        environ.get("RAFTSCHED_CLIENT_CERT") or None,
        environ.get("RAFTSCHED_CLIENT_KEY") or None,
        environ.get("RAFTSCHED_INSECURE", "").strip().lower() in _YES,
    )


@lru_cache(maxsize=1024)
def in_clear(server: Server) -> bool:
    """Returns True when other machines could read what is sent there. A name other than localhost counts as another
    machine."""
    if server.scheme == "https" or server.host == "localhost":
        return False
    import ipaddress

    try:
        return not ipaddress.ip_address(server.host).is_loopback
    except ValueError:
        return True


def check_clear(servers: Iterable[Server], token: object, trust: Trust) -> None:
    """Raises ClientError "insecure" when a token would go to one of the servers unencrypted. Nothing has been sent
    then."""
    if not token or trust.insecure:
        return
    for server in servers:
        if in_clear(server):
            raise ClientError(
                "insecure",
                f"the token is not sent to {server}: plain HTTP shows it to everybody on the way; say https://, or"
                " --insecure (RAFTSCHED_INSECURE=1, insecure=True) where that is meant. Nothing was sent",
            )


def untrusted(detail: str) -> ClientError:
    return ClientError("untrusted", detail)


def is_of_tls(error: BaseException) -> bool:
    """Returns True for a failed handshake. Loads no TLS module for a client that uses none."""
    import sys

    ssl = sys.modules.get("ssl")
    return ssl is not None and isinstance(error, ssl.SSLError)


def is_cut(error: BaseException) -> bool:
    """Returns True when the other side closed a TLS connection without notice."""
    return is_of_tls(error) and type(error).__name__ == "SSLEOFError"


def is_of_certificate(error: BaseException) -> bool:
    """Returns True when the server refused this side's certificate, or that there was none. With TLS 1.3 that is seen
    only after the first request has been written; the server has read nothing of it (RFC 8446, section 4.4.2)."""
    reason = str(getattr(error, "reason", "") or "").upper()
    return is_of_tls(error) and "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)


def _of_handshake(error: Exception) -> str:
    reason = str(getattr(error, "reason", "") or error).upper().replace(" ", "_")
    if any(part in reason for part in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")):
        return "does not speak TLS; say http://"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return f"wants a client certificate; say {_SHOW}"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return "does not take the client certificate: it has expired, or is not signed by an authority of its clients"
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return "speaks no version of TLS that is safe; 1.2 is the oldest"
    return f"breaks the TLS handshake: {str(getattr(error, 'reason', '') or error).lower().replace('_', ' ')}"


def _seen(server: Server) -> tuple[str, str]:
    """Returns the names of a server's certificate, and the day it expires; empty where they cannot be seen. The
    certificate is not trusted: its names are shown to somebody who is told that it is not."""
    import socket
    import ssl

    try:
        from cryptography import x509

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with (
            socket.create_connection((server.host, server.port), LOOK_S) as sock,
            context.wrap_socket(sock, server_hostname=server.host) as spoken,
        ):
            raw = spoken.getpeercert(binary_form=True)
        certificate = x509.load_der_x509_certificate(raw or b"")
        expires = certificate.not_valid_after_utc.strftime("%Y-%m-%d")
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [
            *alternatives.get_values_for_type(x509.DNSName),
            *map(str, alternatives.get_values_for_type(x509.IPAddress)),
        ]
    except (ImportError, OSError, ValueError):
        return "", ""
    except x509.ExtensionNotFound:
        return "", expires
    return ", ".join(name for name in names[:10] if name.isprintable()), expires


def _authorities(file: str) -> str:
    """Returns what a CA file holds. Comments between certificates may be in any encoding; an empty file is not the
    authorities of the system. Raises OSError."""
    from raftsched.system.regular_files import read_regular

    return read_regular(file).decode("ascii", "ignore") + "\n"


def _said(error: Exception) -> str:
    if is_of_tls(error):
        reason = str(getattr(error, "reason", "") or "")
        if "KEY_VALUES_MISMATCH" in reason:
            return "the key is not that of the certificate"
        return f"it is not PEM ({reason.lower().replace('_', ' ')})" if reason else "it is not PEM"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


def _no_password() -> str:
    raise ValueError("its key is encrypted, and nobody is asked for a password")
