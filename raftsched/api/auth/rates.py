"""Rate limits: a bucket for each token, and for each address of those who show none.

A bucket holds so many requests and fills again evenly (a token bucket, as RFC 2697 meters with). A request to an empty
one is refused at once with the time at which it is worth trying again: nothing waits, so that a flood holds nothing.
A bucket of processor time is beside them for each token: it pays for what requests took after they were let in, may be
overdrawn by what is under way, and lets nothing in until it is paid back.
Each node counts for itself. Memory is bounded: the bucket that was not used for the longest goes first, and one that is
full again says no more than one that does not exist.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from math import ceil
from typing import Literal, get_args

from raftsched.api.auth.callers import Caller, Rate
from raftsched.api.http.addresses import Addresses
from raftsched.api.http.problems import Problem
from raftsched.cluster_settings import Settings
from raftsched.config.addresses import Network

KEPT_MAX = 4_096  # buckets of each kind
IPV6_PREFIX = 64  # bits: one customer has a whole /64, and so 2^64 addresses (RFC 6177)

PROCESSOR_BURST = 10  # seconds of its share that a token may take at once
OVERDRAWN_MAX_S = 60  # it waits no longer than this, whatever was under way

Kind = Literal["token", "address", "failures", "processor"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@lru_cache(maxsize=256)
def rate_of(per_s: float, burst: int) -> Rate:
    """`burst` 0: as many as come in two seconds."""
    return Rate(per_s, max(1, burst or ceil(2 * per_s)))


@lru_cache(maxsize=16)
def processor_rate(ms_per_s: int) -> Rate | None:
    """Returns the rate of a token's processor time, in milliseconds; None: it is not limited."""
    return Rate(ms_per_s, PROCESSOR_BURST * ms_per_s) if ms_per_s else None


class Buckets:
    """The buckets of one kind, by their owners. `per_s` and `burst` may differ from one request to the next."""

    def __init__(self, size_max: int = KEPT_MAX) -> None:
        self._size_max = size_max
        self._kept: OrderedDict[object, list[float]] = OrderedDict()  # [requests left, when that was so in seconds]

    def __len__(self) -> int:
        return len(self._kept)

    def wait_s(self, key: object, rate: Rate, now: float, *, take: bool = True) -> float:
        """Takes one request out of the bucket and returns 0; or the seconds until one is in it, and takes nothing."""
        if not take and key not in self._kept:
            return 0.0
        bucket = self._filled(key, rate, now)
        left = bucket[0]
        if left < 1.0:
            return (1.0 - left) / rate.per_s
        if take:
            bucket[0] = left - 1.0
        return 0.0

    def spend(self, key: object, rate: Rate, amount: float, now: float) -> None:
        """Takes so much out of the bucket, also where there is less in it."""
        bucket = self._filled(key, rate, now)
        bucket[0] = max(bucket[0] - amount, -OVERDRAWN_MAX_S * rate.per_s)

    def _filled(self, key: object, rate: Rate, now: float) -> list[float]:
        """Returns the bucket with what has come in until now."""
        bucket = self._kept.get(key)
        if bucket is None:
            if len(self._kept) >= self._size_max:
                self._kept.popitem(last=False)
            bucket = self._kept[key] = [float(rate.burst), now]
            return bucket
        self._kept.move_to_end(key)
        left, since = bucket
        if now > since:
            bucket[0] = min(left + (now - since) * rate.per_s, rate.burst)
            bucket[1] = now
        return bucket


class Rates:
    """The rate limits of one node. `proxies`: networks whose addresses stand for many callers, who are not counted as
    one."""

    def __init__(self, proxies: Iterable[Network] = ()) -> None:
        self._stands_for_many = Addresses(proxies, own=()).stands_for_many
        self.refused: Counter[Kind] = Counter()
        self._tokens = Buckets()
        self._addresses = Buckets()
        self._failures = Buckets()
        self._processor = Buckets()

    def of_token(self, who: Caller, settings: Settings, now: float) -> None:
        """Counts one more request of a token. Callers without one, as another node or the owner of this one, are not
        counted. Raises Problem rate-limited."""
        rate = who.rate
        if rate is None:
            if not settings.rate_per_token or not who.name or not who.counted:
                return
            rate = rate_of(settings.rate_per_token, settings.burst_per_token)
        wait_s = self._tokens.wait_s(who.actor or who.name, rate, now)
        if wait_s:
            raise self._refuse("token", wait_s, rate, f'The token "{who.name}" is for')

    def of_processor(self, who: Caller, ms_per_s: int, now: float) -> None:
        """Looks whether a token has processor time left. Raises Problem rate-limited."""
        rate = processor_rate(ms_per_s)
        if rate is None or not who.name or not who.counted:
            return
        wait_s = self._processor.wait_s(who.actor or who.name, rate, now, take=False)
        if wait_s:
            whose = f'The token "{who.name}" is for'
            raise self._refuse("processor", wait_s, rate, whose, "ms of this node's processor time")

    def spend(self, who: Caller, ms_per_s: int, seconds: float, now: float) -> None:
        """Charges a token with processor time."""
        rate = processor_rate(ms_per_s)
        if rate is not None:
            self._processor.spend(who.actor or who.name, rate, seconds * 1_000, now)

    def of_address(self, address: str, settings: Settings, now: float) -> None:
        """One more request that needs no token. Raises Problem rate-limited."""
        if settings.rate_per_address and not self._stands_for_many(address):
            rate = rate_of(settings.rate_per_address, settings.burst_per_address)
            wait_s = self._addresses.wait_s(network_of(address), rate, now)
            if wait_s:
                raise self._refuse("address", wait_s, rate, "Without a token one address is good for")

    def of_failure(self, address: str, settings: Settings, now: float, *, take: bool = True) -> None:
        """One more request that showed no token, or none that is good. Raises Problem rate-limited. `take`: False only
        looks: before it is known, or found out at some cost, whether it is one."""
        if self._stands_for_many(address):
            return
        rate = rate_of(settings.failures_per_address, 0)
        wait_s = self._failures.wait_s(network_of(address), rate, now, take=take)
        if wait_s:
            raise self._refuse("failures", wait_s, rate, "Without a token that is good one address is for")

    def _refuse(self, kind: Kind, wait_s: float, rate: Rate, whose: str, what: str = "requests") -> Problem:
        """The headers are those of draft-ietf-httpapi-ratelimit-headers-10."""
        self.refused[kind] += 1
        seconds = ceil(wait_s)
        return Problem(
            "rate-limited",
            f"{whose} {rate.per_s:g} {what} a second, {rate.burst} at once; come again in {seconds} s.",
            headers={
                "Retry-After": str(seconds),
                "RateLimit-Policy": f'"{kind}";q={rate.burst};w={max(1, ceil(rate.burst / rate.per_s))}',
                "RateLimit": f'"{kind}";r=0;t={seconds}',
            },
        )


@lru_cache(maxsize=1_024)
def network_of(address: str) -> str:
    """Returns the key of an address: itself, and the network of an IPv6 address. Connections without an address (those
    of the node's own process) share one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
