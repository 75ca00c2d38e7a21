"""Versioned registers: jobs whose label is written and which are deleted with If-Match, made anew under their names
with If-None-Match, and read with consistency=leader, by several clients at once, each through any node, without
repeating anything."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from harness.http import Reply
from harness.world import World

REGISTERS = 6
CLIENTS = 5
PAUSE_S = (0.1, 0.9)
TIMEOUT_S = 5.0
WRITE_SHARE = 0.5
DELETE_SHARE = 0.2  # of the writes to what is there
KNOWN_SHARE = 0.3  # of the reads of what is known: only a newer version is asked for
LAST_READS = 20


class Seen(NamedTuple):
    """What a client was answered of a register. `version`: its job and revision, as the body says; None: none is
    there."""

    version: str | None
    etag: str = ""


class Edit:
    name = "edit"

    def __init__(self) -> None:
        self._value = 0

    async def prepare(self, world: World) -> None:
        for number in range(REGISTERS):
            made = await world.insist("PUT", _path(number), _job("0"))
            world.history.note("register", key=number, value="0", version=_version(made))

    async def run(self, world: World) -> None:
        await asyncio.gather(*(self._client(world, f"edit-{n}") for n in range(CLIENTS)))

    async def _client(self, world: World, process: str) -> None:
        seen: dict[int, Seen] = {}  # the newest that this client knows of each register
        while await world.pause(*PAUSE_S):
            key = world.rng.randrange(REGISTERS)
            known = seen.get(key)
            if known is None or world.rng.random() >= WRITE_SHARE:
                await self._read(world, process, key, seen)
            elif known.version is None:
                await self._create(world, process, key, seen)
            elif world.rng.random() < DELETE_SHARE:
                await self._delete(world, process, key, seen)
            else:
                await self._write(world, process, key, seen)

    async def _read(self, world: World, process: str, key: int, seen: dict[int, Seen]) -> None:
        node, known = world.any_node(), seen.get(key)
        headers: dict[str, str] = {}
        request = {"key": key, "node": node.name}
        if known is not None and known.version is not None and world.rng.random() < KNOWN_SHARE:
            headers["If-None-Match"], request["known"] = known.etag, known.version

        def answer(reply: Reply) -> dict[str, Any]:
            return {"version": _version(reply), "value": reply.json["labels"]["value"]}

        path = f"{_path(key)}?consistency=leader"
        reply = await world.call(
            "read", process, request, lambda: node.ask("GET", path, headers=headers, timeout_s=TIMEOUT_S), answer
        )
        if reply is not None and reply.status in (200, 404):
            seen[key] = _seen(reply)

    async def _write(self, world: World, process: str, key: int, seen: dict[int, Seen]) -> None:
        value = self._next_value()
        request = {"value": value, "expected": seen[key].version}
        headers = {"If-Match": seen[key].etag}
        await self._change(world, process, "write", key, "PATCH", {"labels": {"value": value}}, headers, request, seen)

    async def _delete(self, world: World, process: str, key: int, seen: dict[int, Seen]) -> None:
        request, headers = {"expected": seen[key].version}, {"If-Match": seen[key].etag}
        await self._change(world, process, "remove", key, "DELETE", None, headers, request, seen)

    async def _create(self, world: World, process: str, key: int, seen: dict[int, Seen]) -> None:
        value = self._next_value()
        headers = {"If-None-Match": "*"}
        await self._change(world, process, "make", key, "PUT", _job(value), headers, {"value": value}, seen)

    async def _change(
        self,
        world: World,
        process: str,
        f: str,
        key: int,
        method: str,
        body: Any,
        headers: dict[str, str],
        request: dict[str, Any],
        seen: dict[int, Seen],
    ) -> None:
        node = world.any_node()

        def answer(reply: Reply) -> dict[str, Any]:
            return {} if method == "DELETE" else {"version": _version(reply)}

        reply = await world.call(
            f,
            process,
            {"key": key, "node": node.name, **request},
            lambda: node.ask(method, _path(key), body, headers=headers, timeout_s=TIMEOUT_S),
            answer,
        )
        if reply is None or reply.status not in (200, 201, 404):
            seen.pop(key)
        else:
            seen[key] = Seen(None) if method == "DELETE" else _seen(reply)

    def _next_value(self) -> str:
        self._value += 1
        return str(self._value)

    async def settle(self, world: World) -> None:
        """What each register is in the end: an edit that was lost last would not be seen by anybody else."""
        for key in range(REGISTERS):
            for _ in range(LAST_READS):
                seen: dict[int, Seen] = {}
                await self._read(world, "edit-last", key, seen)
                if seen:
                    break
                await asyncio.sleep(0.3)
            else:
                world.history.note("not-over", amiss=f"register {key} cannot be read although all is well")


def _seen(reply: Reply) -> Seen:
    return Seen(None) if reply.status == 404 else Seen(_version(reply), reply.headers["etag"])


def _version(reply: Reply) -> str:
    return f"{reply.json['id']}.{reply.json['revision']}"


def _job(value: str) -> dict[str, Any]:
    return {"trigger": {"manual": True}, "handler": {"shell": "true"}, "labels": {"value": value}}


def _path(number: int) -> str:
    return f"/v1/namespaces/default/jobs/register-{number}"
