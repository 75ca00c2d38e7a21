"""Tokens that this node does not know: one that was made a moment ago at another node is not refused.

The request waits until this node has applied what the leader had committed when it came. All that wait share the
questions to the leader, so that invented tokens cost no more than the wait: there is a bound on how many wait, in all
and for one address, and a token that is known to be none is refused at once for a moment.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from raftsched.api.auth.access import (
    Locked,
    MalformedDigest,
    UnknownToken,
    count_failure,
    identify,
    is_locked,
    oidc_of,
    refused,
)
from raftsched.api.auth.callers import Caller
from raftsched.api.auth.oidc_verify import Refused
from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem

WAITING_MAX = 256  # requests of this node
WAITING_MAX_EACH = 32  # of one address
REFUSED_MAX = 1_000  # tokens remembered as none
REFUSED_S = 1.0  # for so long; a token's secret is random, so nobody shows it before it is made


class UnknownTokens:
    """Resolves tokens that are unknown to this node, whose requests wait meanwhile."""

    def __init__(self) -> None:
        self.waiting: Counter[str] = Counter()  # by address
        self._refused: OrderedDict[bytes, tuple[float, str]] = OrderedDict()  # by the hash of the token: until, why

    async def resolve(self, ctx: ApiContext, digest: bytes, address: str, bearer: str = "") -> Caller:
        """Returns the caller of a token. `bearer`: the token, when it may be an issuer's. Raises Problem unauthorized,
        forbidden, overloaded; rate-limited: too many from there were none; behind: there is no leader to ask, or what
        was committed is not applied here in time."""
        if isinstance(digest, MalformedDigest) and not is_locked(
            ctx
        ):  # nobody made it a moment ago, but perhaps the first admin
            return identify(ctx, digest)
        now = ctx.clock.monotonic()
        until, why = self._refused.get(digest, (now, ""))
        if until > now:
            if why:
                raise refused(why)
            return identify(ctx, digest)
        locked = is_locked(ctx)
        if locked and self._full(address):
            raise Locked
        count_failure(ctx, address, take=False)
        who = ctx.issuer.at_once(oidc_of(ctx), bearer, now, ctx.now_ms()) if bearer and not locked else None
        if who is not None:
            return who
        with self._one_more(address):
            index = await ctx.catch_up_soon()
            try:
                return identify(ctx, digest)
            except UnknownToken as error:
                unknown = error
            locked = isinstance(unknown, Locked)
            try:
                if bearer and not locked:
                    who = await ctx.issuer.introduce(oidc_of(ctx), bearer, now, ctx.now_ms())
            except Refused as error:
                self._refuse(digest, now, str(error))
                raise refused(str(error)) from None
        if who is None:
            if index is None and locked:
                raise unknown
            if index is None:
                raise Problem(
                    "behind",
                    "This node does not know the token, and cannot find out at the moment whether it is a new one; "
                    "try again or ask another node.",
                )
            self._refuse(digest, now)
            raise unknown
        return who

    def _refuse(self, digest: bytes, now: float, why: str = "") -> None:
        self._refused[digest] = (now + REFUSED_S, why)
        if len(self._refused) > REFUSED_MAX:
            self._refused.popitem(last=False)

    def _full(self, address: str) -> bool:
        return self.waiting.total() >= WAITING_MAX or self.waiting[address] >= WAITING_MAX_EACH

    @contextmanager
    def _one_more(self, address: str) -> Iterator[None]:
        waiting = self.waiting
        if self._full(address):
            raise Problem("overloaded", "Too many requests show tokens that are not known here; try again shortly.")
        waiting[address] += 1
        try:
            yield
        finally:
            waiting[address] -= 1
            if not waiting[address]:
                del waiting[address]


UNKNOWN_TOKENS: web.AppKey[UnknownTokens] = web.AppKey("strangers", UnknownTokens)
