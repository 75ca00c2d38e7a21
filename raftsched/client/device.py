"""Logging in at an OpenID Connect issuer from a terminal: the device authorization grant (RFC 8628), and what follows.

What the issuer says about the token is not verified here: it is asked for over TLS from the issuer itself (OpenID
Connect Core 1.0, section 3.1.3.7, 6), and every node verifies it.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from raftsched.client.errors import AuthError, ClientError

ASK_S = 10.0  # for one answer of the issuer
ANSWER_MAX = 256 * 1024  # bytes
WAIT_MAX_S = 1_800.0  # for a person to let the device in, whatever the issuer says
_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_SLOWER_S = 5.0  # RFC 8628, section 3.5


class Issuer(NamedTuple):
    """Addresses that it shows (OpenID Connect Discovery 1.0). `revoke`: RFC 7009; None: it has none."""

    device: str
    token: str
    revoke: str | None


class Waiting(NamedTuple):
    """The page for a person to open, and the code to type there."""

    code: str
    user_code: str
    address: str
    whole_address: str | None  # with the code in it
    expires_s: float
    interval_s: float


class Tokens(NamedTuple):
    """`expires_at`: of `bearer`, in seconds since 1970; None: it does not say."""

    bearer: str
    refresh: str | None
    expires_at: int | None


def discover(issuer: str) -> Issuer:
    """Raises ClientError "unreachable", "not-possible"."""
    if not _is_safe(issuer, issuer) or "?" in issuer or "#" in issuer:
        raise _wrong(f"{issuer!r} is no issuer; write https://host/path (http is for this machine only)")
    status, found = _ask(issuer.rstrip("/") + "/.well-known/openid-configuration")
    if status != 200:
        raise _wrong(f"{issuer} answers {status} where its configuration should be")
    if found.get("issuer") != issuer:
        raise _wrong(f"{issuer} says that it is another issuer; write it as it does")
    device, token, revoke = (found.get(f"{name}_endpoint") for name in ("device_authorization", "token", "revocation"))
    if not isinstance(device, str) or not isinstance(token, str):
        raise _wrong(f"{issuer} offers no device authorization (RFC 8628)")
    for address in (device, token, revoke):
        if address is not None and not (isinstance(address, str) and _is_safe(address, issuer)):
            raise _wrong(f"{issuer} shows an address without https")
    return Issuer(device, token, revoke)


def begin(issuer: Issuer, client_id: str, scope: str) -> Waiting:
    """Raises ClientError."""
    status, found = _ask(issuer.device, {"client_id": client_id, "scope": scope})
    if status != 200:
        raise _refused("the issuer does not begin a login", found)
    try:
        whole = found.get("verification_uri_complete")
        return Waiting(
            str(found["device_code"]),
            _shown(found["user_code"]),
            _shown(found["verification_uri"]),
            None if whole is None else _shown(whole),
            min(float(found["expires_in"]), WAIT_MAX_S),
            max(0.0, float(found.get("interval", 5))),
        )
    except (KeyError, TypeError, ValueError):
        raise _wrong("the issuer's answer is not that of RFC 8628") from None


def wait(
    issuer: Issuer,
    client_id: str,
    waiting: Waiting,
    use: str,
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> Tokens:
    """Waits until the person has allowed the device, and returns the tokens. `use`: "id_token" or "access_token".
    `now`: in seconds. Raises AuthError when nobody did or they refused; ClientError."""
    until, interval = now() + waiting.expires_s, waiting.interval_s
    while now() < until:
        sleep(interval)
        form = {"grant_type": _DEVICE, "device_code": waiting.code, "client_id": client_id}
        status, found = _ask(issuer.token, form)
        if status == 200:
            return _tokens(found, use)
        error = found.get("error")
        if error == "slow_down":
            interval += _SLOWER_S
        elif error == "expired_token":
            break
        elif error != "authorization_pending":
            raise _refused("the issuer does not let you in", found)
    raise AuthError("unauthorized", "nobody let this device in in time; log in again")


def refresh(issuer: Issuer, client_id: str, token: str, use: str) -> Tokens:
    """Raises AuthError: the login is over; ClientError."""
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
    status, found = _ask(issuer.token, form)
    if status != 200:
        raise _refused("the login is over", found)
    made = _tokens(found, use)
    return made if made.refresh is not None else made._replace(refresh=token)


def revoke(issuer: Issuer, client_id: str, token: str) -> None:
    """Takes a refresh token back, where the issuer can. Raises ClientError."""
    if issuer.revoke is not None:
        kind = "refresh_token"  # what RFC 7009 calls it
        _ask(issuer.revoke, {"token": token, "token_type_hint": kind, "client_id": client_id})


def _tokens(found: Mapping[str, Any], use: str) -> Tokens:
    bearer = found.get(use)
    if not isinstance(bearer, str) or not bearer.isascii() or not bearer.isprintable() or " " in bearer:
        other = "access_token" if use == "id_token" else "id_token"
        raise _wrong(f"the issuer gives no {use} for this client and scope; try --use {other}, or the scope openid")
    again = found.get("refresh_token")
    return Tokens(bearer, again if isinstance(again, str) else None, _expiry(bearer))


def _expiry(bearer: str) -> int | None:
    """Returns when the token expires, if it is a JWT that says so."""
    parts = bearer.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return int(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_safe(url: str, issuer: str) -> bool:
    """https; http where the issuer is on this machine, as it is in tests."""
    try:
        parts, own = urlsplit(url), urlsplit(issuer)
        _ = parts.port
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or not url.isascii() or not url.isprintable() or " " in url:
        return False
    if parts.scheme == "https":
        return True
    return parts.scheme == own.scheme == "http" and _is_loopback(parts.hostname) and _is_loopback(own.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ask(url: str, form: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Redirects are not followed. Raises ClientError "unreachable"."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, parts.port, timeout=ASK_S, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=ASK_S)
    )
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": "application/json", "Connection": "close"}
    body = None
    if form is not None:
        body = urlencode(form)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        connection.request("GET" if form is None else "POST", target, body, headers)
        answer = connection.getresponse()
        raw = answer.read(ANSWER_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise ClientError("unreachable", f"{parts.scheme}://{parts.netloc} cannot be reached: {error}") from None
    finally:
        connection.close()
    try:
        found = json.loads(raw) if len(raw) <= ANSWER_MAX else None
    except (ValueError, RecursionError):
        found = None
    return answer.status, found if isinstance(found, dict) else {}


def _shown(value: Any) -> str:
    """Returns the text made safe for a terminal. Raises ValueError."""
    text = str(value)
    if not text.isprintable() or len(text) > 2_048:
        raise ValueError("not to be shown")
    return text


def _refused(what: str, found: Mapping[str, Any]) -> AuthError:
    said = [found.get("error"), found.get("error_description")]
    why = ": ".join(text for text in said if isinstance(text, str) and text.isprintable())[:300]
    return AuthError("unauthorized", f"{what}: {why}" if why else what)


def _wrong(detail: str) -> ClientError:
    return ClientError("not-possible", detail)
