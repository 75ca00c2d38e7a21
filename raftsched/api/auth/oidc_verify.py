"""Verification of an issuer's tokens, and the roles that they give. Without I/O and without a clock.

RFC 7519 (JWT), 8725 (how to verify them), OpenID Connect Core 1.0 section 3.1.3.7, RFC 9068 for access tokens. What a
token says of its own key (`jwk`, `jku`, `x5u`) is not looked at: keys are those that the issuer publishes.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from raftsched.api.auth.callers import ROLES, Caller, Issued
from raftsched.core.subjects.access import Oidc, Role
from raftsched.surface.oidc import OidcIn

TOKEN_MAX = 8_192  # characters
LEEWAY_MS = 30_000  # between the clocks of the issuer and of a node
KEYS_MAX = 100  # of one issuer
RSA_BITS = (2_048, 8_192)  # least, most
USERNAME_MAX = 64  # characters that are shown

# what a key must be for an algorithm: kty, and the curves
_RSA: tuple[str, tuple[str, ...]] = ("RSA", ())
_KEYS: dict[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _RSA),
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
_PUBLIC = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "OKP": ("kty", "crv", "x")}
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
_PART = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SUBJECT = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
_USERNAME = re.compile(rf"[A-Za-z0-9._@+-]{{1,{USERNAME_MAX}}}", re.ASCII)
_setting = msgspec.json.Decoder(OidcIn)


class Refused(Exception):
    """The token is not to be taken; the text says why."""


class UnknownKey(Exception):
    """It may be one that the issuer shows only since a moment ago."""


class Key(NamedTuple):
    kid: str | None
    alg: str | None
    kty: str
    crv: str | None
    members: tuple[tuple[str, str], ...]  # of the public key


class Verified(NamedTuple):
    """`caller`: None: no rule fits, `why` says so. `until_ms`: when it holds no longer."""

    caller: Caller | None
    why: str
    until_ms: int


def setting_of(row: Oidc) -> OidcIn | None:
    return _setting.decode(row.content) if row.content else None


def looks_issued(bearer: str) -> bool:
    """Returns whether this may be a JWT: the cluster's own tokens are none."""
    return bearer.startswith("ey") and bearer.count(".") == 2


def read_keys(raw: bytes) -> tuple[Key, ...]:
    """Those of a JWK set (RFC 7517) that sign. Raises ValueError."""
    try:
        found = json.loads(raw)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError('has no "keys"')
    if len(listed) > KEYS_MAX:
        raise ValueError(f"has {len(listed)} keys; at most {KEYS_MAX} are read")
    return tuple(key for one in listed if isinstance(one, dict) and (key := _key(one)) is not None)


def _key(one: dict[str, Any]) -> Key | None:
    names = _PUBLIC.get(one["kty"]) if isinstance(one.get("kty"), str) else None
    if names is None or one.get("use", "sig") != "sig":
        return None
    uses = one.get("key_ops")
    if uses is not None and not (isinstance(uses, list) and "verify" in uses):
        return None
    members = {name: one.get(name) for name in names}
    kid, alg = one.get("kid"), one.get("alg")
    if not all(isinstance(value, str) for value in members.values()):
        return None
    if not isinstance(kid, str | None) or not isinstance(alg, str | None):
        return None
    return Key(kid, alg, one["kty"], members.get("crv"), tuple(members.items()))  # type: ignore[arg-type]


def _json_of(part: str) -> dict[str, Any] | None:
    if not _PART.fullmatch(part):
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def verify(row: Oidc, setting: OidcIn, keys: Iterable[Key], bearer: str, now_ms: int) -> Verified:
    """Raises Refused, UnknownKey; ImportError without PyJWT."""
    claims = _claims(setting, keys, bearer)
    until_ms = _check(setting, claims, now_ms)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        raise Refused('The token has no "sub" of 1 to 255 visible ASCII characters.')
    name = _name(setting, claims, subject)
    roles = _roles(setting, claims)
    if roles is None:
        why = f'No rule of this cluster fits the token of "{name}"; an admin says which claims give a role (oidc set).'
        return Verified(None, why, until_ms)
    role, namespaces, grants = roles
    issued = Issued(setting.issuer, subject, row.revision)
    digest = sha256(bearer.encode()).digest()
    return Verified(Caller(role, namespaces, 0, name, digest, grants, issued, until_ms), "", until_ms)


def _claims(setting: OidcIn, keys: Iterable[Key], bearer: str) -> dict[str, Any]:
    """Returns the claims of a token whose signature has been verified."""
    if len(bearer) > TOKEN_MAX:
        raise Refused(f"The token has {len(bearer):,} characters; {TOKEN_MAX:,} is the limit.")
    parts = bearer.split(".")
    header = _json_of(parts[0]) if len(parts) == 3 else None
    if header is None or not all(_PART.fullmatch(part) for part in parts):
        raise Refused("The token is no signed JWT.")
    algorithm, kind, kid = header.get("alg"), header.get("typ"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in setting.algorithms or algorithm not in _KEYS:
        raise Refused(f"The token is signed by another algorithm than {', '.join(setting.algorithms)}.")
    if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
        raise Refused('The token is of another type ("typ") than JWT and at+jwt.')
    if "crit" in header or "b64" in header:
        raise Refused('The token has a header ("crit", "b64") that is not known here.')
    if not isinstance(kid, str | None):
        raise Refused('The token names its key ("kid") by what is no text.')
    return _signed(_suitable(keys, algorithm, kid), algorithm, bearer)


def _suitable(keys: Iterable[Key], algorithm: str, kid: str | None) -> Key:
    kty, curves = _KEYS[algorithm]
    found = [
        key
        for key in keys
        if key.kty == kty
        and (not curves or key.crv in curves)
        and key.alg in (None, algorithm)
        and (kid is None or key.kid == kid)
    ]
    if not found:
        raise UnknownKey
    if kid is None and len(found) > 1:
        raise Refused('The token does not say by which of its issuer\'s keys it is signed ("kid").')
    return found[0]


def _signed(key: Key, algorithm: str, bearer: str) -> dict[str, Any]:
    import jwt

    try:
        payload = _reader(algorithm).decode(bearer, _public(key, algorithm), algorithms=[algorithm])
        claims = json.loads(payload)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise Refused("The token's signature is not that of its issuer.") from None
    if not isinstance(claims, dict):
        raise Refused("The token holds no claims.")
    return claims


@lru_cache(maxsize=len(_KEYS))
def _reader(algorithm: str) -> Any:
    import jwt

    return jwt.PyJWS(algorithms=[algorithm])


@lru_cache(maxsize=2 * KEYS_MAX)
def _public(key: Key, algorithm: str) -> Any:
    """Raises Refused; ValueError, PyJWTError: it is no key."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    made = jwt.PyJWK(dict(key.members), algorithm=algorithm).key
    if isinstance(made, RSAPublicKey) and not RSA_BITS[0] <= made.key_size <= RSA_BITS[1]:
        raise Refused(f"The issuer's key has {made.key_size} bits; {RSA_BITS[0]} are the least.")
    return made


def _check(setting: OidcIn, claims: Mapping[str, Any], now_ms: int) -> int:
    """Returns when it ends. Raises Refused."""
    if claims.get("iss") != setting.issuer:
        raise Refused("The token is of another issuer.")
    if "events" in claims:  # RFC 8417: it tells of something, such as a logout, and lets nobody in
        raise Refused('The token tells of an event ("events").')
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or setting.audience not in named:
        raise Refused(f'The token is for somebody else: its "aud" does not name "{setting.audience}".')
    party = claims.get("azp")
    if party is not None and setting.client_id is not None and party != setting.client_id:
        raise Refused(f'The token was given to somebody else: its "azp" is not "{setting.client_id}".')
    if len(named) > 1 and (party is None or party not in (setting.client_id, setting.audience)):
        raise Refused('The token is for several, and its "azp" is not the client of this cluster ("client_id").')
    ends = _time(claims, "exp")
    if ends is None:
        raise Refused('The token has no end ("exp").')
    if now_ms >= ends + LEEWAY_MS:
        raise Refused("The token is past its end.")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and now_ms < begins - LEEWAY_MS:
            raise Refused(f'The token holds from later on only ("{name}"); compare the clocks of node and issuer.')
    return ends + LEEWAY_MS


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """Returns a time in ms since 1970."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 253_402_300_800:
        raise Refused(f'The token\'s "{name}" is no time.')
    return int(value * 1_000)


def _name(setting: OidcIn, claims: Mapping[str, Any], subject: str) -> str:
    """Returns the name that the audit shows. It has the subject always, for people may change their names."""
    given = None if setting.username_claim is None else _value(claims, setting.username_claim)
    if isinstance(given, str) and _USERNAME.fullmatch(given) and given != subject:
        return f"oidc:{given} ({subject})"
    return f"oidc:{subject}"


def _value(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _roles(setting: OidcIn, claims: Mapping[str, Any]) -> tuple[Role, frozenset[str] | None, dict[str, Role]] | None:
    """Returns the highest of all rules that fit, for each namespace; None: none fits. What is in no namespace takes a
    rule without namespaces, and can be seen by any."""
    everywhere: Role | None = None
    grants: dict[str, Role] = {}
    for rule in setting.rules:
        value = _value(claims, rule.claim)
        if not any(_is(one, rule.value) for one in (value if isinstance(value, list) else [value])):
            continue
        role = ROLES[rule.role]
        if rule.namespaces is None:
            everywhere = role if everywhere is None else max(everywhere, role)
        for namespace in rule.namespaces or ():
            grants[namespace] = max(role, grants.get(namespace, role))
    if everywhere is not None:
        return everywhere, None, {name: role for name, role in grants.items() if role > everywhere}
    return (Role.VIEWER, frozenset(), grants) if grants else None


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == ("true" if value else "false")
    return isinstance(value, str) and value == wanted
