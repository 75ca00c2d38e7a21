"""The names by which hosts are asked for: IDNA (RFC 3490), by which many spellings are one name, such as letters of
full width, or with a soft hyphen. The core reads names in ASCII only (`core.rules.hosts`), so whoever takes a host, or
a rule about hosts, from people names it so."""

from __future__ import annotations


def asked_for(host: str) -> str:
    """Returns the name in ASCII. What is no name in the DNS stays as it is: nobody can ask for it."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return host


def rule_asked_for(rule: str) -> str:
    """Returns a rule about hosts (`core.rules.allowed.Rule`) with the names in it as they are asked for."""
    return rule if rule.isascii() else ".".join(map(asked_for, rule.split(".")))


def url_asked_for(url: str) -> str:
    """Returns an http:// or https:// address with its host as it is asked for."""
    if url.isascii():
        return url
    scheme, separator, rest = url.partition("://")
    end = min((place for mark in "/?#" if (place := rest.find(mark)) >= 0), default=len(rest))
    user, at, authority = rest[:end].rpartition("@")
    host, colon, port = authority.partition(":")
    return f"{scheme}{separator}{user}{at}{asked_for(host)}{colon}{port}{rest[end:]}"
