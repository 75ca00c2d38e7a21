"""Queues, calendars, namespaces, secrets, webhooks, and schedules that nothing is made of."""

from __future__ import annotations

from typing import Any

from tests.kept.asking import Asking
from tests.kept.scenes.jobs import MANUAL, TRUE

GIVEN = "whsec_a2Vwd" + "A" * 38 + "="  # a secret that is not made by the cluster
LISTS = ("", "?limit=1", "?limit=0", "?cursor=nope", "?nope=1", "?consistency=stale")

# Of each kind: its address, a first body, a change, and bodies that are wrong.
KINDS: list[tuple[str, str, Any, Any, list[Any]]] = [
    (
        "/v1/queues",
        "/v1/queues/mail",
        {"max_running": 3, "rate": {"count": 10, "per": "1m"}},
        {"paused": True, "rate": None},
        [{"max_running": -1}, {"rate": {"count": 1}}, {"nope": 1}, [], b"{"],
    ),
    (
        "/v1/calendars",
        "/v1/calendars/holidays",
        {
            "timezone": "Europe/Madrid",
            "dates": ["2030-12-25"],
            "ranges": [{"from": "2030-08-01", "to": "2030-08-15"}],
            "yearly": ["01-01"],
            "weekdays": ["sat", "sun"],
            "hours": [{"from": "22:00", "to": "06:00"}],
            "description": "No runs.",
        },
        {"weekdays": ["sun"], "hours": None},
        [{"dates": ["2030-02-30"]}, {"weekdays": ["someday"]}, {"timezone": "Mars/Base"}, {"nope": 1}, "x"],
    ),
    (
        "/v1/namespaces",
        "/v1/namespaces/billing",
        {
            "description": "Invoices.",
            "owner": "ana",
            "defaults": {"queue": "mail", "timeout": "1h"},
            "limits": {"max_running": 5, "output_keep": "7d"},
        },
        {"owner": None, "limits": {"max_running": None}},
        [{"limits": {"max_running": 0}}, {"defaults": {"name": "x"}}, {"owner": 7}, {"nope": 1}],
    ),
    (
        "/v1/webhooks",
        "/v1/webhooks/ops",
        {
            "url": "https://example.com/hook",
            "events": ["failed", "dead_letter"],
            "cluster_events": ["node_lost"],
            "filter": {"namespace": "billing", "labels": {"team": "a"}},
            "headers": {"X-A": "b"},
            "secret": GIVEN,
            "retry_delays": ["10s", "1m"],
            "timeout": "5s",
            "at_most": {"count": 10, "per": "1m"},
            "max_running": 2,
        },
        {"active": False, "headers": {}},
        [{"url": "ftp://x"}, {"events": ["nope"]}, {"secret": "short"}, {"kind": "email"}, {}, {"nope": 1}],
    ),
]


async def named(ask: Asking) -> None:
    """Each kind of named thing, from its making to its end, with all conditions."""
    for at, path, body, change, wrong in KINDS:
        await ask("GET", path)
        await ask("PUT", path, body, {"If-None-Match": "*"})
        tag = ask.call.headers.get("ETag", "")
        await ask("PUT", path, body, {"If-None-Match": "*"})
        await ask("PUT", path, body)
        await ask("GET", path)
        await ask("GET", path, None, {"If-None-Match": ask.call.headers.get("ETag", "")})
        await ask("HEAD", path)
        await ask("PATCH", path, change)
        await ask("PATCH", path, change, {"If-Match": tag})
        await ask("PATCH", path, change, {"If-Match": "nope"})
        await ask("PATCH", f"{path}-nobody", change)
        for one in wrong:
            await ask("PUT", path, one)
            await ask("PATCH", path, one)
        await ask("PUT", f"{at}/A%20B", body)
        await ask("PUT", f"{at}/other", body)
        for query in LISTS:
            await ask("GET", f"{at}{query}")
        page = await ask("GET", f"{at}?limit=1")
        await ask("GET", f"{at}?limit=1&cursor={page.get('next')}")
        await ask("DELETE", path, None, {"If-Match": tag})
        await ask("DELETE", f"{at}/other")
        await ask("DELETE", f"{at}/other")
    await ask("POST", "/v1/jobs", {**MANUAL, "namespace": "billing"})
    await ask("DELETE", "/v1/namespaces/billing")
    await ask("POST", "/v1/jobs", {"trigger": {"every": "1h", "calendar": "holidays"}, "handler": TRUE})
    await ask("DELETE", "/v1/calendars/holidays")
    await ask("GET", "/v1/namespaces/billing/keys")
    await ask("GET", "/v1/namespaces/billing/keys?limit=1")
    await ask("GET", "/v1/namespaces/billing/keys?limit=x")
    keyed = {
        **MANUAL,
        "namespace": "billing",
        "name": "keyed",
        "params": {"t": "a"},
        "concurrency": {"key": "{params.t}", "max": 2},
    }
    made = await ask("POST", "/v1/jobs", keyed)
    await ask("POST", f"/v1/jobs/{made['id']}/run", {})
    await ask("GET", "/v1/namespaces/billing/keys")


async def hidden(ask: Asking) -> None:
    """Secrets, and those of webhooks, which are shown once."""
    path = "/v1/namespaces/billing/secrets/token"
    await ask("GET", path)
    await ask("PUT", path, {"value": "one"}, {"If-None-Match": "*"})
    await ask("PUT", path, {"value": "two"}, {"If-None-Match": "*"})
    tag = ask.call.headers.get("ETag", '"1"')
    await ask("PUT", path, {"value": "two", "shared": True}, {"If-Match": tag})
    for body in ({}, {"value": 7}, {"value": "x", "nope": 1}, {"value": ""}):
        await ask("PUT", path, body)
    await ask("PUT", "/v1/namespaces/billing/secrets/a%20b", {"value": "x"})
    await ask("PUT", "/v1/namespaces/other/secrets/token", {"value": "x"})
    await ask("GET", path)
    await ask("HEAD", path)
    for query in ("", "?namespace=billing", "?namespace=x", "?limit=1", "?limit=x"):
        await ask("GET", f"/v1/secrets{query}")
    env = {"exec": ["true"], "env": {"T": {"$secret": "token"}}}
    await ask("POST", "/v1/jobs", {"trigger": {"manual": True}, "handler": env, "namespace": "billing", "name": "uses"})
    await ask("POST", "/v1/jobs", {"trigger": {"manual": True}, "handler": env, "namespace": "nowhere"})
    await ask("DELETE", path)
    await ask("DELETE", f"{path}?force=true")
    await ask("DELETE", path)
    await ask("DELETE", f"{path}?force=maybe")
    await ask("POST", "/v1/secrets:reseal", {})
    await ask("POST", "/v1/secrets:reseal")
    await ask("POST", "/v1/secrets:reseal", {"nope": 1})
    await ask("POST", "/v1/webhooks", {"name": "made", "url": "https://example.com/"})
    await ask("POST", "/v1/webhooks", {"name": "made", "url": "https://example.com/"})
    await ask("POST", "/v1/webhooks", {"name": "made", "url": "https://example.com/other"})
    await ask("POST", "/v1/webhooks", {"name": "chat", "kind": "slack", "url": "https://example.com/slack"})
    smtp = {"host": "mail.example.com", "from": "a@example.com", "to": ["b@example.com"], "user": "u", "password": "p"}
    await ask("POST", "/v1/webhooks", {"name": "mail", "kind": "email", "smtp": smtp})
    await ask("POST", "/v1/webhooks", {"name": "mail", "kind": "email", "smtp": {}})
    await ask("GET", "/v1/webhooks/mail")
    for body in ({}, {"overlap": "1h"}, {"secret": GIVEN}, {"secret": "short"}, {"overlap": "900d"}):
        await ask("POST", "/v1/webhooks/made/rotate", body)
    await ask("POST", "/v1/webhooks/mail/rotate", {})
    await ask("POST", "/v1/webhooks/nobody/rotate", {})
    await ask("POST", "/v1/webhooks/made/test", {})
    await ask("POST", "/v1/webhooks/made/test", {"nope": 1})
    await ask("POST", "/v1/webhooks/nobody/test", {})


async def schedules(ask: Asking) -> None:
    """Previews, and crontabs."""
    triggers: list[dict[str, Any]] = [
        {"cron": "0 2 * * 1-5", "timezone": "Europe/Madrid"},
        {"cron": "H H * * *"},
        {"cron": "0 0 12 ? * MON-FRI", "dialect": "quartz"},
        {"every": "90s"},
        {"every": "1h", "mode": "fixed_delay"},
        {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "starts_at": "2030-01-01T09:00:00Z"},
        {"at": "2030-06-01T00:00:00Z"},
        {"in": "45m", "jitter": "1m"},
        {"manual": True},
        {"after": {"job": "x"}},
        {"cron": "0 0 30 2 *"},
        {"cron": "nope"},
        {},
    ]
    for trigger in triggers:
        await ask("POST", "/v1/schedules/preview", {"trigger": trigger, "count": 3})
    several = [{"id": "a", "every": "1h"}, {"id": "b", "cron": "30 2 * * *"}]
    await ask("POST", "/v1/schedules/preview", {"triggers": several, "count": 4})
    day = {"trigger": {"every": "6h"}, "by_day": "UTC", "from": "2030-03-01T00:00:00Z", "to": "2030-03-03T00:00:00Z"}
    await ask("POST", "/v1/schedules/preview", day)
    for body in ({"trigger": {"every": "1h"}, "count": 0}, {"trigger": {"every": "1h"}, "nope": 1}, {}, [], b"{"):
        await ask("POST", "/v1/schedules/preview", body)
    text = "# nightly\nMAILTO=ops\n0 2 * * * ./report.sh\n@daily ./day.sh\n*/5 * * * * a % b\n61 * * * * x\nnope\n"
    await ask("POST", "/v1/schedules/crontab", {"text": text})
    await ask(
        "POST",
        "/v1/schedules/crontab",
        {"text": text, "prefix": "p-", "namespace": "billing", "timezone": "Europe/Madrid"},
    )
    await ask(
        "POST", "/v1/schedules/crontab", {"text": "0 2 * * * root ./x\n", "user_column": True, "file": "/etc/crontab"}
    )
    await ask("POST", "/v1/schedules/crontab", {"text": "0 0 2 * * * ./x\n", "seconds": True})
    for body in ({}, {"text": 7}, {"text": "", "timezone": "Mars/Base"}, {"text": "", "nope": 1}):
        await ask("POST", "/v1/schedules/crontab", body)
