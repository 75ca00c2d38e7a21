"""The checks of who gets in: tokens, TLS, certificates, keys."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.doctor.checks import Finding, lasting
from raftsched.doctor.facts import Facts
from raftsched.doctor.samples import DAYS_LEFT, RAFT_DAYS_LEFT

DAYS_WARN = 14
_DAY_MS = 86_400_000


def access(facts: Facts) -> Iterator[Finding]:
    if facts.tokens.required:
        yield Finding("access", "ok", "requests need a token")
    elif all(is_local(str(node.get("http") or "")) for node in facts.cluster["nodes"]):
        yield Finding("access", "ok", "open, to this machine only")
    else:
        says = "open: whoever reaches a node that was started with --open may run programs there; others are locked"
        yield Finding("access", "warn", says, "raftsched tokens bootstrap --data DIR, on the machine of a node")


def plain_http(facts: Facts) -> Iterator[Finding]:
    addresses = {node["id"]: str(node.get("http") or "") for node in facts.cluster["nodes"]}
    plain = [node for node, http in addresses.items() if not http.startswith("https://") and not is_local(http)]
    if plain:
        says = f"beyond its own machine: {', '.join(plain)}; tokens can be read"
        do = "--tls-cert and --tls-key for the node; with a proxy in front, let nobody else reach its port"
        yield Finding("plain-http", "warn", says, do, tuple(plain))
    else:
        yield Finding("plain-http", "ok", "nowhere beyond a node's own machine")


def is_local(address: str) -> bool:
    """Returns whether an address, as nodes announce theirs, is of a machine itself. No address is."""
    host = address.removeprefix("https://").rpartition(":")[0].strip("[]")
    return host in ("", "localhost", "::1") or host.startswith("127.")


def tokens(facts: Facts) -> Iterator[Finding]:
    found = facts.tokens
    if not found.required:
        return
    soon = [ms for ms in found.expire_in_ms if ms < DAYS_WARN * _DAY_MS]
    never = f"{found.never:,}{'' if found.exact else '+'} never do"
    if soon:
        count = f"{len(soon)} expire{'s' * (len(soon) == 1)} within {DAYS_WARN} days"
        do = "raftsched tokens list names them; make new ones for who still needs them: raftsched tokens create"
        yield Finding("tokens", "warn", f"{count}, the first in {min(soon) / _DAY_MS:.1f}; {never}", do)
    else:
        yield Finding("tokens", "ok", f"none expires within {DAYS_WARN} days; {never}")


def secrets(facts: Facts) -> Iterator[Finding]:
    count = facts.unreadable
    if count:
        says = f"{count:,} are sealed with a cluster key that {facts.asker} does not have"
        do = "put that key into its key file as well; raftsched secrets reseal names what cannot be read"
        yield Finding("secrets", "warn", says, do, (facts.asker,))
    else:
        yield Finding("secrets", "ok", f"{facts.asker} can read all")


def audit(facts: Facts) -> Iterator[Finding]:
    keep = lasting(facts.audit_keep_ms)
    for kind, age_ms in sorted(facts.audit_short_ms.items()):
        says = f"notes of kind {kind} are kept{lasting(age_ms)}, not{keep}: there are as many as audit_max lets be"
        do = f"raftsched audit list --kind {kind} names who asks for so much; raftsched cluster settings set audit_max"
        yield Finding("audit", "warn", says, do)
    if not facts.audit_short_ms:
        yield Finding("audit", "ok", f"notes are kept{keep}, as audit_keep says")


def certificates(facts: Facts) -> Iterator[Finding]:
    do = "put a new certificate in place of the old one on {}: it is read again by itself"
    yield from _expiring(facts, "certificates", DAYS_LEFT, do)


def raft_certificates(facts: Facts) -> Iterator[Finding]:
    do = "raftsched certs node {0}; put the files in place of --raft-cert and --raft-key on {0}: they are read again"
    yield from _expiring(facts, "raft-certificates", RAFT_DAYS_LEFT, do)


def _expiring(facts: Facts, check: str, series: str, do: str) -> Iterator[Finding]:
    """Gives a finding for each that expires soon. None where there are no certificates."""
    found = sorted((samples[series], node) for node, samples in facts.samples.items() if series in samples)
    for days, node in found:
        if days <= 0:
            yield Finding(check, "fail", f"that of {node} has expired", do.format(node), (node,))
        elif days < DAYS_WARN:
            yield Finding(check, "warn", f"that of {node} expires in {days:.1f} days", do.format(node), (node,))
    if found and found[0][0] >= DAYS_WARN:
        days, node = found[0]
        says = f"the first one to expire, of {node}, has {days:.0f} days left"
        yield Finding(check, "ok", says, nodes=(node,))


CHECKS = (access, plain_http, tokens, secrets, audit, certificates, raft_certificates)
