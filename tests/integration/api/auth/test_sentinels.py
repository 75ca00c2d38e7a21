"""Nothing of a namespace is named to, or changed by, who is for another one: all operations of the route table, with
what there is in it and with what there is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import quote, unquote

from raftsched.api.routes import ROUTES
from raftsched.api.serving import Route
from raftsched.core.commands import Assign, Ended, Started
from raftsched.core.ids import parse_instance, parse_job
from raftsched.core.model import Outcome
from raftsched.core.tables import Table, u64
from raftsched.output.format.spool import STDOUT, pack
from raftsched.output.keeping.store import Record
from tests.support.local_api import Client
from tests.support.tokens import As, guarded, limited
from tests.support.worker_sessions import PATH as SESSIONS

MARK = "zq"  # all names and texts of the namespace B begin so, and nothing else does
A, B = "aa", f"{MARK}space"
CALLERS = ("viewer", "editor", "operator", "worker", "granted")
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}}
NOTES = (Table.META, Table.ORIGINS, Table.AUDIT, Table.KEYS)
NAMES_B = {
    "audit_list_all", "dead_letters_list_all", "events_get", "explain_get", "health_metrics", "instances_get",
    "instances_list_all", "instances_list_of_job", "instances_search", "jobs_explain", "jobs_get", "jobs_graph",
    "jobs_list_list_jobs", "namespaces_get", "namespaces_list_all", "now_get", "operations_get", "output_get",
    "queues_list_all", "revisions_list_all", "run_keys_list_all", "schedules_next_of_job", "secrets_list_all",
    "webhooks_get", "webhooks_list_all", "workers_get", "workflows_get",
}  # fmt: skip


@dataclass
class There:
    """What there is in B, by what stands before it in an address, or by the parameter that names it. `twins`: the same
    of what there is nowhere."""

    named: dict[str, list[str]] = field(default_factory=dict)
    twins: dict[str, str] = field(default_factory=dict)

    def add(self, twin: str, text: str, *parts: str) -> None:
        self.twins[text] = twin
        for part in parts:
            self.named.setdefault(part, []).append(text)


async def furnish(call: Client, admin: As) -> There:
    """Makes something of every kind in B."""
    there, cluster = There(), call.cluster
    users = ("default:jobs", f"{B}:{MARK}-user")
    cluster.open_session("n1", call.url.removeprefix("http://"), users)

    async def ok(method: str, path: str, body: Any = None) -> Any:
        status, answer = await admin(method, path, body)
        assert status < 300, (method, path, status, answer)
        return answer

    await ok("PUT", f"/v1/namespaces/{A}", {})
    await ok("PUT", f"/v1/namespaces/{B}", {"description": f"{MARK}-about", "limits": {"max_running": 50}})
    there.add("nospace", B, "namespaces", "namespace")
    await ok("PUT", f"/v1/namespaces/{B}/secrets/{MARK}-secret", {"value": f"{MARK}-value-of-it"})
    hook = {"url": f"https://example.com/{MARK}-url", "events": ["failed"], "filter": {"namespace": B}}
    await ok("PUT", f"/v1/webhooks/{MARK}-hook", {**hook, "headers": {"X-Key": f"{MARK}-header"}, "max_running": 2})
    there.add("no-hook", f"{MARK}-hook", "webhooks")
    there.add("no-secret", f"{MARK}-secret", "secrets")
    there.add("_webhooks.no-hook", f"_webhooks.{MARK}-hook", "queues", "queue")
    there.add("_namespaces.nospace", f"_namespaces.{B}", "queues", "queue")
    content = {
        "handler": {"exec": ["echo", f"{MARK}-argument"], "env": {"X": {"$secret": f"{MARK}-secret"}}},
        "labels": {f"{MARK}-label": f"{MARK}-word"},
        "owner": f"{MARK}-owner",
        "description": f"{MARK}-description",
        "params": {"p": f"{MARK}-param"},
        "queue": f"{MARK}-queue",
        "concurrency": {"key": f"{MARK}-key", "max": 5},
        "overlap": "allow",
        "retry": {"delays": []},
        "notify": [{"webhook": f"{MARK}-hook", "on": ["failed"]}],
    }
    jobs = f"/v1/namespaces/{B}/jobs"
    first = await ok("PUT", f"{jobs}/{MARK}-first", {**JOB, **content})
    second = await ok("PUT", f"{jobs}/{MARK}-second", {**JOB, "trigger": {"after": {"job": f"{MARK}-first"}}})
    cron = await ok("PUT", f"{jobs}/{MARK}-cron", {**JOB, **content, "trigger": {"every": "1h"}})
    for name, made in (("first", first), ("second", second), ("cron", cron)):
        there.add(f"no-{name}", f"{MARK}-{name}", "names")
        there.add(f"{B}/no-{name}", f"{B}/{MARK}-{name}", "job")
        there.add(made["id"][:-1] + ("1" if made["id"][-1] == "0" else "0"), made["id"], "jobs", "job")
    ended = await _run(call, admin, f"{jobs}/{MARK}-first", Outcome.FAILED)
    goes = await _run(call, admin, f"{jobs}/{MARK}-cron", None)
    waits = (await ok("POST", f"{jobs}/{MARK}-first/run", {}))["id"]
    for name in (ended, goes, waits):
        there.add(name[:13] + "@1" + name[15:], name, "instances", "workflows", "ids", "parent", "resource")
    many = await ok("POST", "/v1/jobs:actions", {"action": "pause", "filter": {"namespace": B, "name": f"{MARK}-cron"}})
    there.add("0000000000001", many["id"], "operations")
    opening = {"name": "w1", "handlers": ["exec"], "namespaces": [B], "incarnation": "i", "opening": 1}
    session = (await ok("POST", SESSIONS, opening))["session"]
    there.named["worker"] = ["w1"]  # machines are in no namespace
    there.named["workers"] = ["w1"]
    there.add("9999999-" + "0" * 32, session, "worker-sessions")
    for part, text in (
        ("label", f"{MARK}-label={MARK}-word"), ("q", f"{MARK}-printed"), ("owner", f"{MARK}-owner"),
        ("queue", f"{MARK}-queue"), ("name", f"{MARK}-first"), ("name_prefix", MARK), ("name_contains", MARK),
    ):  # fmt: skip
        there.add(text.replace(MARK, "no"), text, f"?{part}")
    return there


async def _run(call: Client, admin: As, job: str, outcome: Outcome | None) -> str:
    """Returns the id of a run that has printed something. `outcome`: of its end; None: it goes on."""
    cluster = call.cluster
    _, made = await admin("POST", f"{job}/run", {})
    key = parse_instance(made["id"])
    assert key is not None
    session = cluster.sessions["n1"]
    token = getattr(cluster.apply(Assign(key, session))[0], "number", None)
    assert token is not None
    now = cluster.clock.wall
    cluster.apply(Started(session, token, now))
    if outcome is not None:
        (ref,) = cluster.outputs["n1"].append([Record(token, now, pack(STDOUT, f"{MARK}-printed\n".encode()))])
        cluster.apply(Ended(session, token, outcome, now, now, 1, f"{MARK}-error", output=ref))
    ident: str = made["id"]
    return ident


def addresses(route: Route, there: There) -> Iterator[str]:
    """Yields the addresses of an operation with all that can stand in it, and those of a namespace of the caller's."""
    parts = re.findall(r"(\w[\w-]*)/\{(\w+)\}", route.path)
    choices = []
    for before, part in parts:
        kind = "names" if (before, part) == ("jobs", "name") else before
        choices.append([*there.named.get(kind, ["1"]), *([A] if before == "namespaces" else [])])
    for chosen in product(*choices):
        text = route.path
        for (_, part), value in zip(parts, chosen, strict=True):
            text = text.replace(f"{{{part}}}", quote(value, safe="@"))
        yield text


def queries(route: Route, there: There) -> Iterator[str]:
    """Yields queries of an operation, which name what is in B, or a namespace of the caller's and something in B."""
    declared = route.operation.query
    always = "follow=false&after=oldest" if "follow" in declared and "after" in declared else ""
    found = [""]
    for name in declared:
        for value in (*there.named.get(name, ()), *there.named.get(f"?{name}", ())):
            found.append(f"{name}={quote(value, safe='')}")
    found += [f"namespace={A}&{one}" for one in list(found) if "namespace" in declared and "namespace=" not in one]
    for one in found:
        yield "?" + "&".join(part for part in (one, always) if part)


def shown(text: str, asked: str) -> list[str]:
    """Returns the words of B in an answer that are not in the question."""
    known = unquote(asked)
    return [word for word in re.findall(rf"[\w.-]*{MARK}[\w.-]*", text) if word.strip(".") not in known]


async def callers(call: Client, admin: As) -> dict[str, As]:
    found = {role: await limited(admin, f"{role}-of-{A}", role, A) for role in CALLERS[:4]}
    status, made = await admin(
        "POST",
        "/v1/tokens",
        {"name": "granted", "role": "viewer", "namespaces": [A], "grants": [{"namespace": A, "role": "operator"}]},
    )
    assert status == 201, made
    return {**found, "granted": As(call, made["secret"])}


def asked_as(there: There, asked: str) -> str:
    """Returns the same question about what there is nowhere."""
    for text in sorted(there.twins, key=len, reverse=True):
        twin = there.twins[text]
        asked = asked.replace(quote(text, safe=""), quote(twin, safe="")).replace(text, twin)
    return asked


def env_of(there: There, answer: Any, asked: str) -> list[str]:
    """Returns the names, texts and ids of B that an answer has and its question has not."""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return shown(text, asked) + [
        one for one in (*there.named["jobs"], *there.named["ids"]) if one in text and one not in asked
    ]


async def test_no_answer_names_anything_of_another_namespace(call: Client) -> None:
    """And what is there is answered as what is not."""
    call.checked = False
    admin = (await guarded(call))["admin"]
    there = await furnish(call, admin)
    by = await callers(call, admin)
    told: list[tuple[Any, ...]] = []
    named = set()
    for route in ROUTES:
        if route.method != "GET":
            continue
        for asked in map("".join, product(addresses(route, there), queries(route, there))):
            if route.operation_id not in named and env_of(there, (await admin("GET", asked))[1], asked):
                named.add(route.operation_id)
            twin = asked_as(there, asked)
            for name, who in by.items():
                status, answer = await who("GET", asked)
                if words := env_of(there, answer, asked):
                    told.append((route.operation_id, name, asked, status, words[:3]))
                if twin != asked and (other := (await who("GET", twin))[0]) != status:
                    told.append((route.operation_id, name, asked, status, f"not {other} as {twin}"))
    assert told == [], "\n".join(map(str, told[:40]))
    assert named >= NAMES_B, f"nothing is there for {NAMES_B - named} to show"


def bodies(there: There) -> Iterator[Any]:
    """Yields what may be in a request that would change something in B, or have something of it."""
    jobs, runs = there.named["jobs"], there.named["ids"]
    yield None
    yield {}
    yield {"namespace": B, "name": "evil", **JOB}
    yield {**JOB, "namespace": A, "name": "evil", "notify": [{"webhook": f"{MARK}-hook", "on": ["failed"]}]}
    yield {**JOB, "namespace": A, "name": "evil", "params": {"x": {"$secret": f"{B}/{MARK}-secret"}}}
    yield {**JOB, "namespace": A, "name": "evil", "trigger": {"after": {"job": f"{B}/{MARK}-first"}}}
    yield {"jobs": [{"namespace": B, "name": "evil", **JOB}], "dry_run": False}
    for meant in ({"ids": jobs}, {"filter": {"namespace": B}}, {"all": True}):
        for action in ("pause", "delete", "run"):
            yield {"action": action, **meant}
    yield {"ids": runs}
    yield {"namespace": B}
    yield {"value": "another-value-of-it"}
    yield {"description": "changed"}
    yield {"max_running": 7}
    yield {"active": False}
    yield {"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T05:00:00Z"}
    yield {"name": "evil", "url": "https://example.com/x", "events": ["failed"], "filter": {"namespace": B}}
    yield {"name": "evil", "role": "viewer", "namespaces": [B]}
    yield {"name": "w9", "handlers": ["exec"], "namespaces": [B]}
    yield {"reports": [], "after": 0}
    yield {"ran": []}


def may_be(model: Any, body: Any) -> bool:
    """Returns whether a body has only what the operation knows."""
    if not body:
        return True
    fields = getattr(model, "__struct_encode_fields__", None)
    return model is not None and (fields is None or set(body) <= set(fields))


def rows_of(call: Client, there: There) -> dict[tuple[str, bytes], bytes]:
    """Returns all rows that are about B, but for what is written down of requests."""
    keys = [parse_job(one) for one in there.named["jobs"]]
    about = [MARK.encode(), *(u64(key) for key in keys if key is not None)]
    found = {}
    with call.cluster.store.read() as view:
        for table in Table:
            if table in NOTES:
                continue
            for key, row in view.scan(table):
                if any(text in key or text in row for text in about):
                    found[table.name, bytes(key)] = bytes(row)
    return found


async def test_no_request_changes_anything_of_another_namespace(call: Client) -> None:
    """Nor does its answer name anything, nor tell what is there from what is not."""
    call.checked = False
    admin = (await guarded(call))["admin"]
    there = await furnish(call, admin)
    by = await callers(call, admin)
    before, told = rows_of(call, there), list[tuple[Any, ...]]()
    assert len(before) > 40
    for route in ROUTES:
        if route.method == "GET":
            continue
        declared = route.operation
        more = [f"?{one}" for one in (f"namespace={B}", "all=true") if one.partition("=")[0] in declared.query]
        taken = [body for body in bodies(there) if may_be(declared.body, body)]
        for path, query, body in product(addresses(route, there), ("", *more), taken):
            asked = path + query + (json.dumps(body) if body else "")
            for name, who in by.items():
                status, answer = await who(route.method, path + query, body)
                if words := env_of(there, answer, asked):
                    told.append((route.operation_id, name, asked, status, words[:3]))
                twin = asked_as(there, path + query), json.loads(asked_as(there, json.dumps(body)))
                if twin != (path + query, body) and (other := (await who(route.method, *twin))[0]) != status:
                    told.append((route.operation_id, name, asked, status, f"not {other} as {twin}"))
                if status in (401, 403, 404):
                    continue
                now = rows_of(call, there)
                was = {key: row for key, row in before.items() if now.get(key) != row}
                new = [key for key in now.keys() - before.keys() if B.encode() in key[1] + now[key]]
                if was or new:
                    told.append((route.operation_id, name, asked, status, f"changes {sorted(was)[:4]} {new[:4]}"))
                    before = now
    assert told == [], "\n".join(map(str, told[:40]))
