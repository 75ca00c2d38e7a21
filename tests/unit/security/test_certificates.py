"""Certificates: two nodes of one authority take each other for what they are, and nobody else."""

from __future__ import annotations

import ssl

import pytest

from raftsched.security import certificates
from raftsched.security.certificates import Pair
from raftsched.system.clock import SystemClock

NOW_MS = SystemClock().wall_ms()


def context(server: bool, pair: Pair | None, authorities: bytes) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.load_verify_locations(cadata=authorities.decode())
    if pair is not None:
        certificates.load_pair(made, pair)
    return made


def shake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends, after a handshake in memory. Raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)
    left = set(ends)
    for _ in range(10):
        for end in ends:
            if end in left:
                try:
                    end.do_handshake()
                    left.discard(end)
                except ssl.SSLWantReadError:
                    pass
    assert not left
    return ends


def test_nodes_of_one_authority_know_each_other() -> None:
    ca = certificates.make_ca("prod", NOW_MS)
    one = certificates.make_node(ca, "prod", "n1", ["n1.example", "10.0.0.1"], NOW_MS)
    two = certificates.make_node(ca, "prod", "n2", ["::1"], NOW_MS)
    client, server = shake(context(False, one, ca.certificate), context(True, two, ca.certificate), "::1")
    assert certificates.identities(client.getpeercert()) == [("prod", "n2")]
    assert certificates.identities(server.getpeercert()) == [("prod", "n1")]
    assert certificates.identities_of(one.certificate) == [("prod", "n1")]
    assert client.getpeercert(binary_form=True) == certificates.der(two.certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(context(False, one, ca.certificate), context(True, two, ca.certificate), "elsewhere.example")


def test_another_authority_and_a_node_as_an_authority_are_refused() -> None:
    ca, other = certificates.make_ca("prod", NOW_MS), certificates.make_ca("prod", NOW_MS)
    one = certificates.make_node(ca, "prod", "n1", ["n1"], NOW_MS)
    stranger = certificates.make_node(other, "prod", "n1", ["n1"], NOW_MS)
    forged = certificates.make_node(one, "prod", "n1", ["n1"], NOW_MS)  # a node is no authority
    for pair in (
        stranger,
        certificates.make_ephemeral(NOW_MS),
        forged._replace(certificate=forged.certificate + one.certificate),
    ):
        with pytest.raises(ssl.SSLError):
            shake(context(False, one, ca.certificate), context(True, pair, ca.certificate), "n1")
    both = ca.certificate + other.certificate
    shake(context(False, one, both), context(True, stranger, both), "n1")


def test_a_certificate_ends() -> None:
    ca = certificates.make_ca("prod", NOW_MS)
    past = certificates.make_node(ca, "prod", "n1", ["n1"], NOW_MS - 91 * 86_400_000)
    one = certificates.make_node(ca, "prod", "n2", ["n2"], NOW_MS)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake(context(False, one, ca.certificate), context(True, past, ca.certificate), "n1")


def test_what_does_not_belong_together_is_refused() -> None:
    ca, other = certificates.make_ca("a", NOW_MS), certificates.make_ca("b", NOW_MS)
    with pytest.raises(ValueError, match="not that of the authority"):
        certificates.make_node(Pair(ca.certificate, other.key), "a", "n1", [], NOW_MS)


def test_names_in_a_uri_are_taken_as_they_were() -> None:
    for cluster, node in (("a/b", "n 1"), ("é", "..")):
        found = certificates.identities({"subjectAltName": [("URI", certificates.uri(cluster, node))]})
        assert found == [(cluster, node)]
    for value in ("https://prod/n1", "raftsched://prod", "raftsched://prod/n1/x", "n1"):
        assert certificates.identities({"subjectAltName": [("URI", value)]}) == []
    assert certificates.identities({"subjectAltName": [("DNS", "raftsched://prod/n1")]}) == []
    assert certificates.identities(None) == []
