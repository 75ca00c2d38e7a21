"""Requests to the API in this process, and their answers as text.

The clock stands where a scene puts it, and ids follow from the log. What is different each time is replaced by the
rules of `RULES`, one for each such thing."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp

from raftsched.config.bounds import Bounds
from tests.kept.folded import folded
from tests.support.documented import document
from tests.support.local_api import Client, LocalCluster, serving

# Of each answer; one that differs is shown, and one that is missing too.
USUAL = {
    "Cache-Control": "no-store",
    "Server": "raftsched",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Raftsched-Leader": "n1",
    "Raftsched-Term": "1",
}
LEFT_OUT = ("Date", "Content-Length")  # the time; and what follows from the body
JSON = "application/json"
# What is random, or a matter of 20 ms, each with what stands in its place.
RULES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"\brs_(?!k{43})[A-Za-z0-9_-]{43}"), "(secret of a token)"),  # not the one that a scene gives
    (re.compile(r"\bwhsec_(?!a2Vwd)[A-Za-z0-9+/]{32,}=*"), "(secret of a webhook)"),  # not the one that a scene gives
    (re.compile(r"\brsw_[A-Za-z0-9_-]{43}"), "(secret of a session)"),
    (re.compile(r'"lease_ms": (0|9000)(?=,\s+"runs")'), '"lease_ms": "(0, or 9000)"'),  # of a poll, which does not wait
]


class Asking:
    """Sends requests to one node, and notes what is answered."""

    def __init__(self, call: Client) -> None:
        self.call = call
        self.cluster: LocalCluster = call.cluster
        self.secrets: dict[str, str] = {}  # of tokens, by who shows them
        self._noted: list[str] = []

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        who: str = "",
        note: bool = True,
    ) -> Any:
        """Returns the body of the answer. `who`: shows the token that `secrets` has for them; "nobody" has none."""
        sent = dict(headers or {})
        if who in self.secrets:
            sent["Authorization"] = f"Bearer {self.secrets[who]}"
        status, answer = await self.call(method, path, body, sent)
        if note:
            self._note(who, method, path, body, headers or {}, status, self.call.headers, answer)
        return answer

    async def alone(self, method: str, path: str, body: Any) -> Any:
        """As a call, by a connection of its own: what a connection begins with may be answered by a faster path."""
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(method, self.call.url + path, json=body) as answer,
        ):
            value = await answer.json(content_type=None)
            self._note("", method, path, body, {"Connection": "(a new one)"}, answer.status, answer.headers, value)
            return value

    def _note(
        self,
        who: str,
        method: str,
        path: str,
        body: Any,
        sent: Mapping[str, str],
        status: int,
        headers: Mapping[str, str],
        answer: Any,
    ) -> None:
        lines = [f"### {operation_of(method, path)}{f' as {who}' if who else ''}", f"{method} {path}"]
        lines += [f"{name}: {value}" for name, value in sent.items()]
        if body is not None:
            lines.append(body.decode(errors="replace") if isinstance(body, bytes) else folded(body))
        lines += [f"-> {status}", *_headers(headers)]
        media = headers.get("Content-Type", "")
        if "json" in media:
            lines.append(folded(answer))
        elif not media.startswith("text/"):
            lines.append(f"({headers.get('Content-Length', 'some')} bytes)")
        elif answer:
            lines.append(str(answer).rstrip("\n"))
        self._noted.append(self._replaced("\n".join(lines)))

    def _replaced(self, text: str) -> str:
        """Returns the text without what is different each time: what is random, and the port, which is a free one."""
        for pattern, instead in RULES:
            text = pattern.sub(instead, text)
        return text.replace(self.call.url.removeprefix("http://"), "(address of this node)")

    def text(self) -> str:
        return "\n\n".join(self._noted) + "\n"


def _headers(headers: Mapping[str, str]) -> list[str]:
    lines = [f"{name}: (none)" for name in USUAL if name not in headers]
    for name, value in headers.items():
        if name not in LEFT_OUT and USUAL.get(name) != value and (name, value) != ("Content-Type", JSON):
            lines.append(f"{name}: {value}")
    return sorted(lines)


@cache
def _patterns() -> list[tuple[str, re.Pattern[str], str]]:
    found = []
    for path, methods in document()["paths"].items():
        pattern = re.compile(re.sub(r"\\\{[a-z]+\\\}", "[^/]+", re.escape(path)))
        found += [(m.upper(), pattern, said["operationId"]) for m, said in methods.items() if m != "parameters"]
    return found


def operation_of(method: str, path: str) -> str:
    """Returns the id of the operation that a request is for; "none": there is no such operation."""
    wanted, address = "GET" if method == "HEAD" else method, path.partition("?")[0]
    return next((name for m, pattern, name in _patterns() if m == wanted and pattern.fullmatch(address)), "none")


Scene = Callable[[Asking], Awaitable[None]]


def played(scene: Scene, *, nodes: tuple[str, ...] = ("n1",), guarded: bool = False) -> str:
    """Returns what a scene asks and is answered, in a cluster of its own."""

    async def main(directory: Path) -> str:
        cluster = LocalCluster(directory, nodes)
        cluster.rng.seed(1)
        cluster.bounds = Bounds(token_processor_ms=0)  # else a busy machine refuses some
        try:
            async with serving(cluster, "n1", guarded=guarded) as call:
                call.checked = False  # against the description: other tests do
                asking = Asking(call)
                await scene(asking)
                return asking.text()
        finally:
            cluster.close()

    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(main(Path(directory)))
