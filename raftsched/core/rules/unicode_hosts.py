"""Hosts as apply reads them in clusters of a level below HOSTS_ARE_ASCII (core.levels): by the Unicode, and the
networks, that the version of Python knows. Nothing else uses it, and nothing else may read text so."""

from __future__ import annotations

from raftsched.core.rules.hosts import IPAddress, Reading


def _asked_for(host: str) -> str:
    return host.encode("idna").decode("ascii").lower()


def _name_of(host: str) -> str:
    if not host.isascii():
        try:
            host = _asked_for(host)
        except UnicodeError:
            pass  # cannot be resolved either
    return host.lower().rstrip(".")


def _pattern_of(text: str) -> str:
    if not text or not all(c.isalnum() or c in "-._*?" for c in text):
        raise ValueError("")
    try:
        return ".".join(_asked_for(label) if not label.isascii() else label for label in text.lower().split("."))
    except UnicodeError:
        raise ValueError("has a name that is none in the DNS; write it as it is there (xn--...)") from None


def _is_public(address: IPAddress) -> bool:
    return address.is_global and not address.is_multicast


UNICODE = Reading(str.lower, _name_of, _pattern_of, _is_public)
