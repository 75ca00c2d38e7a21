"""The cluster itself: members, nodes, settings, access, tokens, the audit, health, documents."""

from __future__ import annotations

from hashlib import sha256

from raftsched.errors import NoLeader, Overloaded, RaftschedError, UnknownOutcome
from raftsched.raft import JoinRequest
from tests.kept.asking import Asking
from tests.kept.scenes.jobs import MANUAL

MEMBERS = "/v1/cluster/members"
NEW = JoinRequest("n4", "127.0.0.1:9003", "127.0.0.1:1", b"4" * 16, 100)
OIDC = {
    "issuer": "https://login.example.com",
    "audience": "raftsched",
    "client_id": "cli",
    "username_claim": "email",
    "rules": [{"claim": "groups", "value": "ops", "role": "operator", "namespaces": ["billing"]}],
}


async def members(ask: Asking) -> None:
    """Three nodes: who they are, who comes and goes, who leads."""
    ask.cluster.open_session("n1", "127.0.0.1:1")
    ask.cluster.heartbeat_ages = {"n2": 120, "n3": 40_000}
    ask.cluster.away = {"n3"}
    ask.cluster.join_requests = [NEW]
    for path in ("/v1/cluster", MEMBERS, "/v1/cluster/terms", "/v1/cluster/doctor", "/v1/nodes", "/v1/nodes/n1"):
        await ask("GET", path)
        await ask("GET", f"{path}?consistency=strong")
        await ask("GET", f"{path}?nope=1")
    for body in ({}, {"id": "n9"}, {"id": "n4", "store": "x"}, {"id": "n4", "nope": 1}, {"id": "n4"}, {"id": "n4"}):
        await ask("POST", MEMBERS, body)
    await ask("GET", MEMBERS)
    await ask("DELETE", f"{MEMBERS}/n4")
    await ask("DELETE", f"{MEMBERS}/n9")
    for body in ({"to": "n9"}, {"to": 7}, {"nope": 1}, {"to": "n2"}):
        await ask("POST", "/v1/cluster/leader", body)
    await ask("GET", "/v1/cluster")
    ask.cluster.leader = None
    await ask("GET", "/v1/cluster")
    await ask("GET", "/v1/jobs?consistency=strong")
    await ask("GET", "/readyz")
    ask.cluster.leader = "n1"
    node = "/v1/nodes/n1"
    await ask("GET", node)
    tag = ask.call.headers["ETag"]
    await ask("GET", node, None, {"If-None-Match": tag})
    await ask("PATCH", node, {"labels": {"disk": "ssd"}, "slots": 3}, {"If-Match": tag})
    await ask("PATCH", node, {"labels": {"disk": None}}, {"If-Match": tag})
    await ask("PATCH", node, {"labels": {"disk": None}, "slots": None})
    await ask("PATCH", node, {"slots": -1, "nope": 1})
    await ask("PATCH", "/v1/nodes/n9", {"slots": 1})
    await ask("POST", f"{node}/drain", {}, {"If-Match": tag})
    for action in ("drain", "drain", "undrain"):
        await ask("POST", f"{node}/{action}", {})
        await ask("POST", f"{node}/{action}", {"nope": 1})
        await ask("POST", f"/v1/nodes/n9/{action}")
    await ask(
        "PUT",
        f"{node}/output-copies?sha256={'0' * 64}",
        b"x",
        {"Content-Type": "application/vnd.raftsched.output-copy"},
    )
    await ask("PUT", f"{node}/output-copies", b"x", {"Content-Type": "text/plain"})
    await ask("GET", "/v1/cluster/log?after=1")
    await ask("GET", "/v1/cluster/log?after=x")


async def settings(ask: Asking) -> None:
    """Settings, the pause of all, and what is wrong with each."""
    path = "/v1/cluster/settings"
    await ask("GET", path)
    tag = ask.call.headers["ETag"]
    await ask("GET", path, None, {"If-None-Match": tag})
    await ask("PATCH", path, {"output_keep": "3d", "rate_per_token": 7}, {"If-Match": tag})
    await ask("PATCH", path, {"output_keep": "4d"}, {"If-Match": tag})
    await ask("PATCH", path, {"output_keep": None, "audit_max": 1_000})
    for body in ({"output_keep": "1 fortnight"}, {"active_max": -1}, {"nope": 1}, [], b"{"):
        await ask("PATCH", path, body)
    for action in ("pause", "pause", "resume", "resume"):
        await ask("POST", f"/v1/cluster/{action}", {})
    await ask("POST", "/v1/cluster/pause", {"nope": 1})
    await ask("GET", path)


async def access(ask: Asking) -> None:
    """Tokens and who may do what with them, logins, and the audit of it all."""
    for path in (
        "/v1/whoami",
        "/v1/cluster/access",
        "/v1/tokens",
        "/v1/cluster/oidc",
        "/v1/audit",
        "/v1/audit/refusals",
    ):
        await ask("GET", path)
    bodies = [
        {"name": "admin", "role": "admin"},
        {"name": "viewer", "role": "viewer"},
        {"name": "editor", "role": "editor", "namespaces": ["billing"]},
        {"name": "granted", "role": "viewer", "grants": [{"namespace": "billing", "role": "editor"}]},
        {"name": "short", "role": "operator", "expires_at": "2030-01-01T01:00:00Z"},
        {"name": "slow", "role": "viewer", "rate": {"count": 10, "per": "1s"}, "burst": 20},
        {"name": "worker", "role": "worker", "queues": ["mail"]},
    ]
    made = {}
    for body in bodies:
        answer = await ask("POST", "/v1/tokens", body)
        made[str(body["name"])], ask.secrets[str(body["name"])] = answer["id"], answer["secret"]
    for body in (
        {},
        {"name": "x", "role": "king"},
        {"name": "a b", "role": "viewer"},
        {"name": "x", "role": "viewer", "nope": 1},
    ):
        await ask("POST", "/v1/tokens", body)
    await ask("POST", "/v1/tokens", {"name": "late", "role": "viewer", "expires_at": "2029-01-01T00:00:00Z"})
    await ask("PUT", "/v1/cluster/access", {})
    await ask("PUT", "/v1/cluster/access", {"required": "yes"})
    await ask("PUT", "/v1/cluster/access", {"required": True, "admin": {"name": "x", "sha256": "short"}})
    await ask("PUT", "/v1/cluster/access", {"required": True, "keep": True})
    await ask("GET", "/v1/cluster/access", who="nobody")
    await ask("GET", "/v1/cluster/access", who="admin")
    await ask("POST", "/v1/tokens", {"name": "more", "role": "admin"}, who="viewer")
    for name in made:
        await ask("GET", "/v1/whoami", who=name)
        await ask("POST", "/v1/jobs", {**MANUAL, "namespace": "billing"}, who=name)
        await ask("POST", "/v1/jobs", {**MANUAL, "namespace": "other"}, who=name)
        await ask("GET", "/v1/jobs?fields=namespace", who=name)
        await ask("GET", "/v1/namespaces/other", who=name)
    await ask("GET", "/v1/whoami", None, {"Authorization": "Bearer nope"})
    await ask("GET", "/v1/whoami", None, {"Authorization": "Basic eDp5"})
    for query in ("", "?limit=2", "?limit=x"):
        await ask("GET", f"/v1/tokens{query}", who="admin")
    await ask("GET", f"/v1/tokens/{made['viewer']}", who="admin")
    await ask("GET", "/v1/tokens/nope", who="admin")
    await ask("DELETE", f"/v1/tokens/{made['viewer']}", who="admin")
    await ask("DELETE", f"/v1/tokens/{made['viewer']}", who="admin")
    await ask("GET", "/v1/whoami", who="viewer")
    ask.cluster.clock.forward(2 * 3_600_000)
    await ask("GET", "/v1/whoami", who="short")
    for body in (OIDC, {}, {**OIDC, "rules": []}, {**OIDC, "issuer": "http://x"}, {**OIDC, "nope": 1}):
        await ask("PUT", "/v1/cluster/oidc", body, who="admin")
    await ask("GET", "/v1/cluster/oidc", who="admin")
    await ask("PUT", "/v1/cluster/oidc", OIDC, {"If-Match": '"999"'}, who="admin")
    await ask("DELETE", "/v1/cluster/oidc", who="admin")
    await ask("DELETE", "/v1/cluster/oidc", None, {"If-Match": '"1"'}, who="admin")
    for query in (
        "",
        "?limit=2&order=oldest",
        "?actor=admin&limit=1",
        "?kind=change&limit=1",
        "?operation=tokens_create&limit=1",
        "?namespace=billing&limit=1",
        "?resource=tokens&limit=1",
        "?from=2030-01-01T00:00:00Z&to=2030-01-01T00:00:01Z&limit=1",
        "?order=up",
        "?cursor=nope",
    ):
        await ask("GET", f"/v1/audit{query}", who="admin")
    await ask("GET", "/v1/audit/chain", who="admin")
    await ask("GET", "/v1/audit/chain", who="editor")
    await ask("GET", "/v1/audit/refusals", who="admin")
    await ask("PUT", "/v1/cluster/access", {"required": False}, who="admin")


async def locked(ask: Asking) -> None:
    """A node that others than its machine can reach, before there is an admin."""
    await ask("GET", "/v1/jobs")
    await ask("GET", "/livez")
    secret = "rs_" + "k" * 43
    admin = {"name": "first", "sha256": sha256(secret.encode()).hexdigest()}
    await ask("PUT", "/v1/cluster/access", {"required": True, "admin": admin})
    ask.secrets["first"] = secret
    await ask("GET", "/v1/whoami", who="first")


async def around(ask: Asking) -> None:
    """Health, documents, backups, what is no operation, and what cannot be done now."""
    for path in ("/livez", "/readyz", "/docs", "/openapi.json", "/metrics", "/v1/cluster/snapshot"):
        await ask("HEAD", path)
        await ask("POST", path, {})
    for path in ("/livez", "/readyz", "/livez?nope=1"):
        await ask("GET", path)
    for method, path in (
        ("GET", "/v1"),
        ("GET", "/v1/nope"),
        ("GET", "/v2/jobs"),
        ("GET", "/v1/jobs/"),
        ("GET", "/v1//jobs"),
        ("GET", "/v1/jobs/%2e%2e"),
        ("GET", "/v1/jobs/a/b/c"),
        ("GET", "/favicon.ico"),
        ("OPTIONS", "/v1/jobs"),
        ("TRACE", "/v1/jobs"),
        ("PUT", "/v1/jobs"),
    ):
        await ask(method, path)
    await ask("GET", "/v1/jobs", None, {"Origin": "https://elsewhere.example"})
    await ask("POST", "/v1/jobs", MANUAL, {"Origin": "https://elsewhere.example"})
    await ask("POST", "/v1/jobs", MANUAL, {"Sec-Fetch-Site": "cross-site"})
    await ask("GET", "/v1/jobs", None, {"Host": "elsewhere.example"})
    await ask("GET", "/v1/jobs", None, {"Accept": "text/html"})
    await ask("GET", "/v1/jobs", None, {"If-Match": '"1"'})
    await ask("GET", "/v1/jobs", b"{}")
    failures: list[RaftschedError] = [
        NoLeader("no leader"),
        UnknownOutcome("nobody knows"),
        Overloaded("too much"),
        RaftschedError("disk-full", "There is no room."),
    ]
    for failure in failures:
        ask.cluster.failure = failure
        await ask("POST", "/v1/jobs", MANUAL)
        await ask("PUT", "/v1/queues/x", {})
        await ask("DELETE", "/v1/queues/x")
    ask.cluster.failure = None


async def metrics(ask: Asking) -> None:
    """What a node counts, after little has happened."""
    await ask("POST", "/v1/jobs", MANUAL)
    await ask("GET", "/metrics")
