"""The issuer whose tokens are taken, as one node sees it: its keys, and the tokens that were found to be good.

Keys are fetched (OpenID Connect Discovery 1.0) away from requests, seldom, within bounds of time and size, and only
from where an admin said. Whoever shows a token that is signed by an unknown key makes a node ask again, but not more
often than every AGAIN_S; without an answer the keys that are known stay good for STALE_S. A token is verified once and
known from then on until it ends, until the setting changes, or until the issuer shows other keys.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import ssl
from collections import OrderedDict
from hashlib import sha256
from urllib.parse import urlsplit

import aiohttp

from raftsched.api.auth.callers import Caller
from raftsched.api.auth.oidc_verify import Key, Refused, UnknownKey, Verified, read_keys, setting_of, verify
from raftsched.api.http.problems import Problem
from raftsched.core.subjects.access import Oidc
from raftsched.surface.oidc import OidcIn
from raftsched.system import background

log = logging.getLogger(__name__)

FRESH_S = 600.0  # after that keys are fetched anew, while they go on to be used
STALE_S = 24 * 3_600.0  # so long they are used without an answer of the issuer
AGAIN_S = 10.0  # between two fetches, at least
FETCH_S = 5.0  # for both documents together
DOCUMENT_MAX = 256 * 1024  # bytes
KNOWN_MAX = 10_000  # tokens
MISSING = "This node cannot verify tokens of an issuer: PyJWT is missing; pip install 'raftsched[oidc]' on every node."


def is_safe(url: str, *, loopback: bool = True) -> bool:
    """https, without credentials; http on this machine only, where `loopback` may be meant."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if (
        not parts.hostname
        or "@" in parts.netloc
        or "?" in url
        or "#" in url
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        return False
    return parts.scheme == "https" or (loopback and parts.scheme == "http" and _is_loopback(parts.hostname))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def can_verify() -> bool:
    try:
        import jwt  # noqa: F401
    except ImportError:
        return False
    return True


class Issuer:
    """Times are in seconds of a monotonic clock (`now`), or in ms since 1970 (`now_ms`)."""

    def __init__(self) -> None:
        self._row: Oidc | None = None
        self._setting: OidcIn | None = None
        self._known: OrderedDict[bytes, Verified] = OrderedDict()
        self._keys: tuple[Key, ...] | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._trouble = ""
        self._said = 0  # the revision of the setting of which it was said that it cannot be used here
        self._task: asyncio.Task[None] | None = None

    def known(self, row: Oidc, digest: bytes, now: float, now_ms: int) -> Caller | None:
        """Returns the caller whose token was verified before; None: it was not. Raises Problem forbidden: no rule fits
        it."""
        if row is not self._row:
            self._take(row)
        found = self._known.get(digest)
        if found is None:
            return None
        if now_ms >= found.until_ms:
            del self._known[digest]
            return None
        if self._setting is not None:
            self._refresh_when_due(self._setting, now)
        return _let(found)

    def at_once(self, row: Oidc, bearer: str, now: float, now_ms: int) -> Caller | None:
        """Returns the caller of a token that the keys at hand can verify; None: they cannot. Raises Problem
        forbidden."""
        setting = self._take(row)
        if setting is None or not self._usable(now):
            return None
        self._refresh_when_due(setting, now)
        try:
            found = self._verify(row, setting, bearer, now_ms)
        except (Refused, UnknownKey, ImportError):
            return None
        return _let(found)

    async def introduce(self, row: Oidc, bearer: str, now: float, now_ms: int) -> Caller | None:
        """The same after asking the issuer for its keys, where they may help; None: no tokens of an issuer are taken.
        Raises Refused, Problem overloaded, forbidden."""
        setting = self._take(row)
        if setting is None:
            return None
        if not can_verify():
            if self._said != row.revision:
                self._said = row.revision
                log.error(MISSING)
            raise Refused(MISSING)
        for last in (False, True):
            try:
                if self._usable(now):
                    return _let(self._verify(row, setting, bearer, now_ms))
            except UnknownKey:
                pass
            if last or not await self._ask(setting, now):
                break
        if self._trouble or not self._usable(now):
            why = self._trouble or "it was asked a moment ago"
            raise Problem("overloaded", f"The keys of {setting.issuer} cannot be had at the moment: {why}.")
        raise Refused("The token is signed by a key that its issuer does not show.")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ------------------------------------------------------------ tokens

    def _take(self, row: Oidc) -> OidcIn | None:
        """The setting that holds. What is known by another one is forgotten."""
        if row is not self._row:
            if self._row is None or row.revision != self._row.revision:
                before, self._setting = self._setting, setting_of(row)
                self._known.clear()
                if before is None or self._setting is None or before.issuer != self._setting.issuer:
                    self._keys = None
                    self._fetched_at = self._tried_at = float("-inf")
                    self._trouble = ""
            self._row = row
        return self._setting

    def _verify(self, row: Oidc, setting: OidcIn, bearer: str, now_ms: int) -> Verified:
        found = verify(row, setting, self._keys or (), bearer, now_ms)
        self._known[sha256(bearer.encode()).digest()] = found
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return found

    # ------------------------------------------------------------ keys

    def _usable(self, now: float) -> bool:
        return self._keys is not None and now - self._fetched_at < STALE_S

    def _refresh_when_due(self, setting: OidcIn, now: float) -> None:
        if now - self._fetched_at >= FRESH_S:
            self._begin(setting, now)

    def _begin(self, setting: OidcIn, now: float) -> asyncio.Task[None] | None:
        """The fetch that is under way, or a new one; None: it is too early for one."""
        if self._task is not None and not self._task.done():
            return self._task
        if now - self._tried_at < AGAIN_S:
            return None
        self._tried_at = now
        self._task = background.start("oidc-keys", self._fetch(setting, now))
        return self._task

    async def _ask(self, setting: OidcIn, now: float) -> bool:
        """Returns whether an answer has come since."""
        task = self._begin(setting, now)
        if task is None:
            return False
        await asyncio.shield(task)
        return True

    async def _fetch(self, setting: OidcIn, now: float) -> None:
        try:
            keys = await fetch_keys(setting.issuer)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if self._setting is setting:
                reason = str(error) or type(error).__name__
                self._trouble = "it does not answer in time" if isinstance(error, TimeoutError) else reason[:300]
                log.warning("the keys of %s cannot be had: %s", setting.issuer, self._trouble)
            return
        if self._setting is None or self._setting.issuer != setting.issuer:
            return
        if keys != self._keys:
            self._known.clear()  # what a key had signed that is not shown any more is not taken any more
            log.info("%d keys of %s", len(keys), setting.issuer)
        self._keys, self._fetched_at, self._trouble = keys, now, ""


def _let(found: Verified) -> Caller:
    if found.caller is None:
        raise Problem("forbidden", found.why)
    return found.caller


async def fetch_keys(issuer: str) -> tuple[Key, ...]:
    """Fetches the keys that the issuer publishes. Raises ValueError, OSError, aiohttp.ClientError."""
    timeout = aiohttp.ClientTimeout(total=FETCH_S)
    trusted = await asyncio.to_thread(ssl.create_default_context)  # the system's authorities, as they are now
    connector = aiohttp.TCPConnector(ssl=trusted)
    async with (
        asyncio.timeout(FETCH_S),
        aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False, trust_env=False) as session,
    ):
        raw = await _document(session, issuer.rstrip("/") + "/.well-known/openid-configuration")
        try:
            found = json.loads(raw)
        except RecursionError:
            raise ValueError("its configuration is nested too deeply") from None
        if not isinstance(found, dict) or found.get("issuer") != issuer:
            raise ValueError("its configuration is that of another issuer")
        address = found.get("jwks_uri")
        own = urlsplit(issuer).scheme == "http"
        if not isinstance(address, str) or not is_safe(address.partition("?")[0], loopback=own):
            raise ValueError('its configuration has no "jwks_uri" with https')
        try:
            return read_keys(await _document(session, address))
        except ValueError as error:
            raise ValueError(f"what it shows as its keys {error}") from None


async def _document(session: aiohttp.ClientSession, url: str) -> bytes:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with session.get(url, allow_redirects=False, headers=headers) as answer:
        if answer.status != 200:
            raise ValueError(f"it answers {answer.status}")
        body = b""
        async for piece in answer.content.iter_chunked(64 * 1024):
            body += piece
            if len(body) > DOCUMENT_MAX:
                raise ValueError(f"it answers more than {DOCUMENT_MAX:,} bytes")
        return body
