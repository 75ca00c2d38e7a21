"""Remote workers that only speak: many of them in one process, each with a session and a connection of its own.

They take runs and report them as succeeded with the next poll. Run as `python -m scripts.benches.fake_workers`; a line
on stdout says that all have a session, and the last one, after SIGTERM, what came of them as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
import time
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp

REQUEST_S = 2.0  # more than a poll waits: then the next node is asked
PAUSE_S = 0.1
RAMP_S = 2.0  # over which polls are spread at first


@dataclass
class Told:
    opened: int = 0
    lost: int = 0  # sessions that ended without being closed
    polls: int = 0
    failed: int = 0  # requests
    runs: int = 0
    shortest_lease_ms: float = float("inf")  # that was left when an answer came


def boot_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Fake:
    def __init__(self, http: aiohttp.ClientSession, servers: list[str], given: argparse.Namespace, number: int) -> None:
        shift = number % len(servers)
        self._http = http
        self._servers = servers[shift:] + servers[:shift]
        self._body = {
            "name": f"{given.name}-{number}",
            "slots": given.slots,
            "handlers": given.handlers.split(","),
            "incarnation": secrets.token_hex(16),
            "version": "fake",
        }
        self._stopping = asyncio.Event()
        self.told = Told()
        self.ready = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            sent = boot_ms()
            status, opened = await self._post("", {**self._body, "opening": sent}, 10.0)
            if not 200 <= status < 300:  # 0: nobody answered
                await asyncio.sleep(PAUSE_S)
                continue
            self.told.opened += 1
            self.ready.set()
            await self._serve(opened, sent + opened["lease_ms"])

    async def _serve(self, opened: dict[str, Any], lease_end: int) -> None:
        session, wait = opened["session"], opened["poll_ms"]
        after, reports = 0, []
        while not self._stopping.is_set() or reports:
            sent = boot_ms()
            if sent >= lease_end - opened["kill_before_ms"]:
                self.told.lost += 1
                return
            body = {"after": after, "wait_ms": wait, "reports": reports}
            status, answer = await self._post("/poll", body, wait / 1000 + REQUEST_S, session)
            if status == 410:
                self.told.lost += 1
                return
            if status != 200:
                await asyncio.sleep(PAUSE_S)
                continue
            self.told.polls += 1
            if answer["lease_ms"]:
                lease_end = max(lease_end, sent + answer["lease_ms"])
            self.told.shortest_lease_ms = min(self.told.shortest_lease_ms, lease_end - boot_ms())
            now = int(time.time() * 1000)
            fresh = [run["token"] for run in answer["runs"] if run["token"] > after]
            after = max([after, *fresh])
            reports = [
                {"token": token, "outcome": "succeeded", "started_at_ms": now, "ended_at_ms": now} for token in fresh
            ]
            self.told.runs += len(fresh)
        await self._post("/close", {}, 5.0, session)

    async def _post(self, path: str, body: dict[str, Any], limit_s: float, session: str = "") -> tuple[int, Any]:
        """Returns status and JSON; 0: no answer."""
        url, headers = f"{self._servers[0]}/v1/worker-sessions", {}
        if session:
            url, headers = f"{url}/{session.partition('-')[0]}{path}", {"Raftsched-Session-Secret": session}
        limit = aiohttp.ClientTimeout(limit_s)
        try:
            async with self._http.post(url, json=body, headers=headers, timeout=limit) as answer:
                said = await answer.read()
                if answer.status < 300:
                    return answer.status, json.loads(said) if said else None
                self.told.failed += 1
                if answer.status < 500:
                    return answer.status, None
        except (OSError, aiohttp.ClientError, TimeoutError):
            self.told.failed += 1
        self._servers.append(self._servers.pop(0))
        return 0, None


async def work(given: argparse.Namespace) -> None:
    servers = given.servers.split(",")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        fakes = [Fake(http, servers, given, given.first + number) for number in range(given.count)]
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, lambda: [fake.stop() for fake in fakes])
        tasks = []
        for fake in fakes:
            tasks.append(asyncio.create_task(fake.run()))
            await asyncio.sleep(RAMP_S / given.count)
        await asyncio.gather(*(fake.ready.wait() for fake in fakes))
        print("ready", flush=True)
        await asyncio.gather(*tasks)
    total = Told()
    for fake in fakes:
        for name, value in asdict(fake.told).items():
            together = min if name == "shortest_lease_ms" else lambda *two: sum(two)
            setattr(total, name, together(getattr(total, name), value))
    print(json.dumps(asdict(total)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True, help="URLs of nodes, with commas between them")
    parser.add_argument("--name", default="fake", help="of the workers, before their numbers")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--count", type=int, default=50, help="how many")
    parser.add_argument("--slots", type=int, default=8, help="of each")
    parser.add_argument("--handlers", default="call:nothing", help="with commas between them")
    try:
        import uvloop

        uvloop.run(work(parser.parse_args()))
    except ImportError:
        asyncio.run(work(parser.parse_args()))
