"""The words of remote workers that only the leader has: when they were heard last, whether they are there, and why they
start nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from aiohttp import web

from raftsched.api.cluster.overview import leaders_answer
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.durations import format_time, parse_time
from raftsched.api.http.requests import PAGE_MAX
from raftsched.core.rules.executors import worker_key, worker_name
from raftsched.quantities import format_duration
from raftsched.surface import workers


class Word(NamedTuple):
    """The newest word of a worker. `quiet_since`: since when it has had no poll open; None: it has, or nobody says."""

    last_heartbeat_at: str | None = None
    trouble: str | None = None
    quiet_since: str | None = None

    def idle_words(self, now_ms: int) -> str | None:
        """Returns why it starts nothing, or is given nothing; None: neither."""
        if self.trouble is not None or self.quiet_since is None:
            return self.trouble
        return _quiet_words(now_ms - parse_time(self.quiet_since))


class _Told(msgspec.Struct):
    name: str
    last_heartbeat_at: str | None = None
    trouble: str | None = None
    quiet_since: str | None = None


class _ToldPage(msgspec.Struct):
    items: list[_Told]


def own_word(ctx: ApiContext, name: str) -> Word:
    """Returns what this node knows, which is nothing unless it leads."""
    key = worker_key(name)
    now_ms = ctx.now_ms()
    heard, since = (
        None if age_ms is None else format_time(now_ms - age_ms)
        for age_ms in (ctx.cluster.heartbeat_ages().get(key), ctx.cluster.quiet_workers().get(key))
    )
    return Word(heard, ctx.cluster.troubles().get(key), since)


def _quiet_words(age_ms: int) -> str:
    return f"it has had no poll open for {format_duration(max(1, age_ms // 1_000) * 1_000)}"


def own_troubles(ctx: ApiContext) -> Mapping[str, str]:
    """Returns why nodes and workers start nothing, or are given nothing, by their ids, as far as this node knows it."""
    quiet = {key: _quiet_words(age_ms) for key, age_ms in ctx.cluster.quiet_workers().items()}
    return {**quiet, **ctx.cluster.troubles()}


async def words_of(ctx: ApiContext, request: web.Request, target: str) -> dict[str, Word] | None:
    """Returns the leader's answer to a GET of one worker or of a page of them, by the workers' names. None: this node
    knows best, or the leader does not answer at once."""
    raw = await leaders_answer(ctx, request, target)
    if raw is None:
        return None
    try:
        if b'"items"' in raw[:10]:
            told = msgspec.json.decode(raw, type=_ToldPage).items
        else:
            told = [msgspec.json.decode(raw, type=_Told)]
    except msgspec.DecodeError:
        return None
    return {one.name: Word(one.last_heartbeat_at, one.trouble, one.quiet_since) for one in told}


async def troubles_of_workers(ctx: ApiContext, request: web.Request) -> dict[str, str]:
    """Returns why workers start nothing, or are given nothing, by their keys, as far as the leader says it of the first
    PAGE_MAX of them."""
    with ctx.read() as view:
        if not meta(view).workers:
            return {}
    told = await words_of(ctx, request, f"{workers.LIST.path}?limit={PAGE_MAX}")
    if told is None:
        return {key: why for key, why in own_troubles(ctx).items() if worker_name(key) is not None}
    now_ms = ctx.now_ms()
    return {worker_key(name): why for name, word in told.items() if (why := word.idle_words(now_ms)) is not None}


async def heard_of_worker(ctx: ApiContext, request: web.Request, key: str) -> int | None:
    """Returns when the leader last heard of a worker; None: nobody says."""
    name = worker_name(key) or ""
    told = await words_of(ctx, request, workers.GET.path.format(name=name))
    word = own_word(ctx, name) if told is None else told.get(name, Word())
    return None if word.last_heartbeat_at is None else parse_time(word.last_heartbeat_at)
