"""Makes X.509 certificates of nodes: an authority of the cluster's own, certificates that it signs, and ephemeral ones.

A node's certificate names it by a URI (RFC 5280, 4.2.1.6), `raftsched://CLUSTER/NODE`, which the other nodes compare;
hosts and addresses beside it let the same files serve HTTPS. Keys are on P-256. Everything is PEM.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

if TYPE_CHECKING:  # who uses none of it does not load it
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_DAYS = 3_650
NODE_DAYS = 90
SCHEME = "raftsched"
_BEFORE = timedelta(minutes=10)  # clocks of other machines may be behind


class Pair(NamedTuple):
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


def make_ca(cluster: str, now_ms: int, days: int = CA_DAYS) -> Pair:
    """Makes an authority that signs certificates of nodes, and nothing else. Its URI has the cluster and no node."""
    from cryptography import x509

    key = _new_key()
    name = _name(f"{SCHEME} {cluster}")
    builder = _begin(name, name, key, now_ms, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    its = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri(cluster, ""))])
    builder = builder.add_extension(its, critical=False)
    return _signed(builder, key, key)


def make_node(ca: Pair, cluster: str, node: str, hosts: Sequence[str], now_ms: int, days: int = NODE_DAYS) -> Pair:
    """Makes a node's certificate for both ends of a connection. `hosts`: names and IP addresses that its clients use.
    Raises ValueError for an authority or a host that is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority = x509.load_pem_x509_certificate(ca.certificate)
    signer = serialization.load_pem_private_key(ca.key, None)
    if not isinstance(signer, EllipticCurvePrivateKey) or signer.public_key() != authority.public_key():
        raise ValueError("the key is not that of the authority's certificate")
    key = _new_key()
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri(cluster, node))]
    names += [_general_name(host) for host in dict.fromkeys(hosts)]
    builder = _begin(_name(node), authority.subject, key, now_ms, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(issuer, critical=False)
    return _signed(builder, key, signer)


def make_ephemeral(now_ms: int) -> Pair:
    """Makes a certificate without a name, for one start of a process: trust comes from what is proved beside it."""
    key = _new_key()
    name = _name(SCHEME)
    return _signed(_begin(name, name, key, now_ms, CA_DAYS), key, key)


def uri(cluster: str, node: str) -> str:
    """Returns the URI by which a certificate names a node."""
    return f"{SCHEME}://{quote(cluster, safe='')}/{quote(node, safe='')}"


def identities(certificate: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Returns cluster and node of each URI of ours in a certificate as `getpeercert()` gives it."""
    found = []
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        scheme, _, rest = value.partition("://")
        cluster, slash, node = rest.partition("/")
        if kind == "URI" and scheme == SCHEME and slash and "/" not in node:
            found.append((unquote(cluster), unquote(node)))
    return found


def identities_of(pem: bytes) -> list[tuple[str, str]]:
    """Returns the identities of the first certificate in PEM. Raises ValueError when it is none."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    values = names.get_values_for_type(x509.UniformResourceIdentifier)
    return identities({"subjectAltName": [("URI", value) for value in values]})


def hosts_of(pem: bytes) -> list[str]:
    """Returns the host names and addresses that the first certificate in PEM is for. Raises ValueError."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def is_for(names: Sequence[str], host: str) -> bool:
    """Returns whether one of the names of a certificate stands for a host: itself, or a wildcard for its first label
    (RFC 6125, 6.4.3)."""
    host = host.strip("[]").lower()
    wanted = {host, f"*.{host.partition('.')[2]}"}
    return any(name.lower() in wanted for name in names)


def is_signed_by(pem: bytes, authorities: bytes) -> bool:
    """Returns whether an authority signed the first certificate in PEM, or the last of those that go with it."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    chain = x509.load_pem_x509_certificates(pem)
    for authority in x509.load_pem_x509_certificates(authorities):
        for certificate in (chain[0], chain[-1]):
            try:
                certificate.verify_directly_issued_by(authority)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return True
    return False


def der(pem: bytes) -> bytes:
    """Returns the first certificate in PEM as it is shown in a handshake. Raises ValueError."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def ends_ms(pem: bytes) -> int:
    """Returns when the first of the certificates in PEM expires, Unix time. Raises ValueError."""
    from cryptography import x509

    return min(int(one.not_valid_after_utc.timestamp()) for one in x509.load_pem_x509_certificates(pem)) * 1000


def words_of(pem: bytes) -> str:
    """Returns by what people know a certificate: its end, and the fingerprint that other tools print of it. Raises
    ValueError."""
    ends = datetime.fromtimestamp(ends_ms(pem) // 1000, UTC)
    return f"it expires {ends:%Y-%m-%d %H:%M} UTC, its SHA-256 fingerprint is {sha256(der(pem)).hexdigest()}"


def load_pair(context: ssl.SSLContext, pair: Pair) -> None:
    """Does what `load_cert_chain` does, from bytes: a key that is only in memory stays there. Raises ssl.SSLError,
    OSError."""
    file = os.memfd_create("pair", os.MFD_CLOEXEC)  # the ssl module takes names of files only
    try:
        os.write(file, pair.certificate.rstrip() + b"\n" + pair.key)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
    finally:
        os.close(file)


def _no_password() -> str:
    raise ValueError("the private key is encrypted; a node takes one that is not, readable by its user only")


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _begin(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, now_ms: int, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _BEFORE).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(**which: bool) -> x509.KeyUsage:
    from cryptography import x509

    every = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: which.get(name, False) for name in every})


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)  # raises ValueError for what is not ASCII


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey, signer: EllipticCurvePrivateKey) -> Pair:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)
    return Pair(certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
