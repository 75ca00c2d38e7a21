"""The longest stretch of the event loop for requests at the edge of what each operation takes: made of its schema in
the description of the API, and of what is known to be dear.

The API runs in a thread with an event loop of its own, whose stretches are measured as a node measures its own
(raftsched.node.loop_meter), in the processor time of that thread. The collector of cycles is off meanwhile, and each
operation was asked once before, so that imports and first uses do not count."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from raftsched.api.routes import ROUTES
from raftsched.config.bounds import Bounds
from raftsched.core.commands import Answer, Assign
from raftsched.core.ids import parse_instance
from raftsched.node.loop_meter import LoopMeter
from raftsched.surface.worker_sessions import SESSION_SECRET
from raftsched.system.clock import SystemClock
from tests.support.documented import document
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.stretches_corpus import DEAR, KNOWN, WORDS

MOST_S = 0.05  # of processor time, in one stretch
TRIES = 4
BEAT_S = 0.001
APPLIED = 25  # commands of one entry: what apply may take in one go is bounded in the raft room, which is not here
ROLES = ("viewer", "editor", "operator", "admin", "worker")
LEFT_OUT = {
    "members_add", "members_remove", "members_transfer",  # of one node
    "output_copies_put",  # of bytes of its own
    "tokens_put_access", "tokens_delete", "oidc_put",  # nothing else would be allowed
    "settings_patch",  # nothing would be as it was
    "snapshot_get",
}  # fmt: skip
TIMEOUT_S = 30.0
OWN = {"session": "own-session", "token": "own-run"}  # in addresses: of who sends the request
WORKERS = ("worker", "admin")


class Operation(NamedTuple):
    """An operation, and the parts of the description that its requests are made of."""

    id: str
    method: str
    path: str
    parameters: list[dict[str, Any]]
    body: dict[str, Any] | None
    media: str
    body_max: int


class Request(NamedTuple):
    path: str
    body: bytes | None
    media: str


class Found(NamedTuple):
    """A stretch, and the request that it is of."""

    seconds: float
    role: str
    operation: str
    status: int
    request: Request

    def __str__(self) -> str:
        said = b"" if self.request.body is None else self.request.body[:300]
        head = f"{self.seconds * 1_000:.0f} ms: {self.operation} as {self.role}, {self.status}"
        size = 0 if self.request.body is None else len(self.request.body)
        return f"{head}: {self.request.path[:300]} {size:,} bytes {said!r}"


def operations() -> list[Operation]:
    """Returns what is not left out."""
    found = []
    for route in ROUTES:
        if route.operation_id in LEFT_OUT:
            continue
        said = document()["paths"][route.path][route.method.lower()]
        content = said.get("requestBody", {}).get("content", {})
        media = next(iter(content), "")
        most = route.operation.body_max
        shared = document()["paths"][route.path].get("parameters", [])
        found.append(
            Operation(
                route.operation_id,
                route.method,
                route.path,
                [_resolved(one) for one in (*shared, *said.get("parameters", ()))],
                content[media]["schema"] if media else None,
                media,
                64 * 1024 if most is None else most,
            )
        )
    found.sort(key=lambda one: (one.method != "GET", one.id.startswith("batch")))  # what makes much comes last
    return found


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found: Any = document()
        for part in schema["$ref"][2:].split("/"):
            found = found[part]
        schema = found
    return schema


class Edge:
    """Values at the edge of what schemas take. `room`: bytes that are left for them."""

    def __init__(self, chosen: random.Random, room: int) -> None:
        self._random = chosen
        self._room = room

    def value(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        schema = _resolved(schema)
        for either in ("oneOf", "anyOf"):
            if either in schema:
                some = [one for one in schema[either] if one.get("type") != "null"] or schema[either]
                return self.value(self._random.choice(some), name, depth)
        if "allOf" in schema:
            whole: dict[str, Any] = {}
            for one in schema["allOf"]:
                whole |= _resolved(one)
            return self.value(whole, name, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next(one for one in kind if one != "null")
        if kind == "string":
            return self._text(schema, name)
        if kind == "integer":
            return self._number(schema)
        if kind == "number":
            return float(self._number(schema))
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind == "array":
            return self._array(schema, name, depth)
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        return self._anything(depth)

    def _text(self, schema: dict[str, Any], name: str) -> str:
        words = WORDS.get(schema.get("format", "")) or WORDS.get(name)
        if words and self._random.random() < 0.8:
            return self._take(self._random.choice(words))
        most = min(schema.get("maxLength", 2_000), max(1, self._room))
        sign = self._random.choice("aaaa0-.é\u2028\\")
        return self._take((sign if "pattern" not in schema else "a") * max(schema.get("minLength", 0), most))

    def _take(self, text: str) -> str:
        self._room -= len(text.encode())
        return text

    def _number(self, schema: dict[str, Any]) -> int:
        low, high = schema.get("minimum", -(2**53)), schema.get("maximum", 2**53)
        return int(self._random.choice((high, high, high, low)))

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        found: list[Any] = []
        most = schema.get("maxItems", 10_000)
        while len(found) < most and self._room > 0 and depth < 20:
            found.append(self.value(schema.get("items", {}), name, depth + 1))
            self._room -= 2
        return found

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties, needed = schema.get("properties", {}), schema.get("required", ())
        found: dict[str, Any] = {}
        keep = self._random.choice((0.15, 0.5, 1.0))
        for name in self._random.sample(list(properties), len(properties)):
            if (name in needed or (self._random.random() < keep and self._room > 0)) and depth < 20:
                found[name] = self.value(properties[name], name, depth + 1)
                self._room -= len(name) + 4
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            most = min(schema.get("maxProperties", 200), 200)
            while len(found) < most and self._room > 0 and depth < 20:
                name = f"k{len(found)}"
                found[name] = self.value(more, name, depth + 1)
                self._room -= len(name) + 4
        return found

    def _anything(self, depth: int) -> Any:
        size = self._random.choice((10, 1_000, max(1, self._room)))
        self._room -= size
        nested: Any = 1
        for _ in range(min(60, size)):
            nested = [nested]
        return self._random.choice(("x" * size, [0] * (size // 2), nested, {str(n): n for n in range(size // 12)}))


def generated(operation: Operation, chosen: random.Random, known: dict[str, str]) -> Request:
    """Returns a request at the edge of what the operation's schema takes."""
    edge = Edge(chosen, chosen.choice((500, operation.body_max // 4, operation.body_max)))
    follows = any(one["name"] == "follow" for one in operation.parameters)
    path, query = operation.path, {"follow": "false"} if follows else dict[str, str]()  # first: what is long is cut
    for one in operation.parameters:
        name = one["name"]
        if one["in"] == "path":
            there = known.get(name)
            value = there if there and chosen.random() < 0.7 else str(edge.value(one["schema"], name))[:300]
            path = path.replace(f"{{{name}}}", quote(value or "x", safe=""))
        elif (
            one["in"] == "query"
            and name not in ("min_index", "after", "cursor", "consistency", "follow")
            and (one.get("required") or chosen.random() < 0.4)
        ):
            found = Edge(chosen, 2_000).value(one["schema"], name)
            query[name] = ",".join(map(str, found)) if isinstance(found, list) else _said(found)
    if query:
        path += "?" + urlencode(query)
    body = None
    if operation.body is not None:
        body = json.dumps(edge.value(operation.body)).encode()[: operation.body_max]
    return Request(path[:8_000], body, operation.media)


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def dear(operation: Operation, chosen: random.Random, known: dict[str, str]) -> list[Request]:
    """Returns what is known to be dear for the operation."""
    found = []
    for make in DEAR.get(operation.id.removesuffix("_by_name"), ()):
        query, body, media = make(chosen)
        path = operation.path
        for name, value in (known | OWN).items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        found.append(Request(f"{path}?{query}" if query else path, body, media or operation.media))
    return found


class Served(LocalCluster):
    """A cluster whose entries are applied in parts, as a node's are."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.turn = asyncio.Lock()

    async def propose(self, commands: Sequence[bytes], timeout_s: float) -> list[Answer]:
        found: list[Answer] = []
        async with self.turn:
            for at in range(0, len(commands), APPLIED):
                found += await super().propose(commands[at : at + APPLIED], timeout_s)
        return found


def _rounds_s() -> float:
    """Returns the processor time of some work that is always the same."""
    began = time.thread_time()
    sum(number * number for number in range(20_000))
    return time.thread_time() - began


class Server:
    """The API of one node, in a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="api", daemon=True)
        self.meter = LoopMeter(SystemClock(), BEAT_S, BEAT_S)
        self._rounds_s = min(_rounds_s() for _ in range(10))
        self.secrets: dict[str, str] = {}
        self.known: dict[str, str] = {}
        self.sessions: dict[str, tuple[str, str]] = {}  # of whom: the session, and the token of its run

    def __enter__(self) -> Server:
        self._thread.start()
        while not self._ready.wait(0.1):
            assert self._thread.is_alive(), "the API starts"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        cluster = Served(self._directory)
        cluster.bounds = Bounds(token_processor_ms=0)  # it is asked without a pause
        try:
            async with serving(cluster, "n1") as client:
                client.checked = False
                self.port = int(client.url.rpartition(":")[2])
                await self._fill(client, cluster)
                cluster.carries_out = False  # that is the leader's
                self.meter.start(after_s=0)
                self._ready.set()
                await self._stop.wait()
                self.meter.stop()
        finally:
            cluster.close()

    async def _fill(self, call: Client, cluster: LocalCluster) -> None:
        """Makes what requests are about, and lets in only who has a token."""
        cluster.open_session("n1", "127.0.0.1:1")
        for role in ROLES:
            _, made = await call("POST", "/v1/tokens", {"name": role, "role": role})
            self.secrets[role] = made["secret"]
        for method, path, body in KNOWN:
            status, answer = await call(method, path, body)
            assert status < 300, (path, answer)
        _, page = await call("GET", "/v1/jobs?limit=1")
        job = page["items"][0]["id"]
        run = (await call("GET", "/v1/instances?limit=1"))[1]["items"][0]
        self.known = {"id": job, "ns": "default", "name": "job-0", "run": run["id"]}
        admin = {"Authorization": f"Bearer {self.secrets['admin']}"}
        for role in WORKERS:
            bearer = {"Authorization": f"Bearer {self.secrets[role]}"}
            status, opened = await call("POST", "/v1/worker-sessions", {"name": role, "handlers": ["exec"]}, bearer)
            assert status == 201, opened
            manual = {"name": f"of-{role}", "trigger": {"manual": True}, "handler": {"exec": ["true"]}}
            _, made = await call("POST", "/v1/jobs", manual, admin)
            _, ran = await call("POST", f"/v1/jobs/{made['id']}/run", {}, admin)
            key = parse_instance(ran["id"])
            assert key is not None
            (given,) = cluster.apply(Assign(key, int(opened["session"].partition("-")[0])))
            self.sessions[role] = (opened["session"], str(getattr(given, "number", given)))
        status, _ = await call("PUT", "/v1/cluster/access", {"required": True}, admin)
        assert status == 200

    def ask(self, connection: http.client.HTTPConnection, method: str, request: Request, role: str) -> int:
        headers = {"Authorization": f"Bearer {self.secrets[role]}"}
        if OWN["session"] in request.path:
            session, token = self.sessions[role if role in WORKERS else "worker"]
            path = request.path.replace(OWN["session"], session.partition("-")[0]).replace(OWN["token"], token)
            request, headers[SESSION_SECRET] = request._replace(path=path), session
        if request.body is not None:
            headers["Content-Type"] = request.media or "application/json"
        try:
            connection.request(method, request.path, request.body, headers)
            answer = connection.getresponse()
            answer.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            return 0
        return answer.status

    def longest_s(self) -> float:
        """Returns the longest stretch since the last call."""

        async def beats() -> float:
            await asyncio.sleep(4 * BEAT_S)
            found = self.meter.longest_s()
            self.meter.forget()
            return found

        return asyncio.run_coroutine_threadsafe(beats(), self._loop).result(TIMEOUT_S)

    def _known(self, operation: Operation) -> dict[str, str]:
        if operation.path.startswith(("/v1/instances", "/v1/workflows")):
            return {**self.known, "id": self.known["run"]}
        return self.known

    def _tries(
        self, connection: http.client.HTTPConnection, operation: Operation, request: Request, role: str
    ) -> Iterator[Found]:
        """Yields the stretch of the request, and where it is too long those of more tries, by what the processor does
        at that moment: what others do on the machine makes the same work take longer, never shorter."""
        for _ in range(TRIES):
            gc.collect()
            status = self.ask(connection, operation.method, request, role)
            found = Found(self.longest_s(), role, operation.id, status, request)
            if found.seconds > MOST_S:
                found = found._replace(seconds=found.seconds / max(1.0, _rounds_s() / self._rounds_s))
            yield found
            if found.seconds <= MOST_S:
                return

    def try_out(
        self, operation: Operation, chosen: random.Random, times: int, roles: Sequence[str] = ()
    ) -> Iterator[Found]:
        """Yields the stretch of each of some requests of an operation. `roles`: of who sends each; empty: of an admin
        and of somebody else."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        known = self._known(operation)
        try:
            self.ask(connection, operation.method, generated(operation, chosen, known), "admin")  # the first use
            requests = [generated(operation, chosen, known) for _ in range(times)]
            for request in (*dear(operation, chosen, known), *requests):
                self.longest_s()
                for role in roles or (chosen.choice(ROLES), "admin"):
                    yield min(self._tries(connection, operation, request, role), key=lambda found: found.seconds)
        finally:
            connection.close()


@contextmanager
def served(directory: Path) -> Iterator[Server]:
    """A server, without the collector of cycles."""
    with Server(directory) as server:
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            yield server
        finally:
            gc.enable()
            gc.unfreeze()
