"""The longest names that are allowed, beside a few short ones: what tables and cards must have room for."""

from __future__ import annotations

from typing import Any

from tests.e2e.browser.world import World

WORDS = "report-of-the-month-that-somebody-named-from-a-path-and-a-host-and-a-commit-" * 4
SPACE = WORDS[:63]
JOB = WORDS[:123]  # and "-two", "-last" fill it up to 128
TEXT = WORDS.replace("-", " ").strip()
ERROR = "'Traceback (most recent call last):\\n  File \"load.py\", line 7, in load\\nValueError: '"
FAILS = f"printf {ERROR} >&2; printf '%0300d\\n' 7 >&2; printf '%0300d\\n' 7; exit 3"
PUTS: dict[str, dict[str, Any]] = {
    f"namespaces/{SPACE}": {
        "owner": WORDS[:128],
        "description": TEXT,
        "limits": {"max_jobs": 1_000_000, "max_running": 1_000},
        "defaults": {"timeout": "10m", "queue": SPACE},
    },
    f"queues/{SPACE}": {"max_running": 2, "rate": {"count": 1_000_000, "per": "1h"}},
    f"calendars/{SPACE}": {"timezone": "America/Argentina/ComodRivadavia", "dates": ["2027-08-01"]},
    f"webhooks/{SPACE}": {
        "url": f"https://{'a' * 60}.example/{'path/' * 40}",
        "events": ["dead_letter", "failed", "timed_out", "killed", "skipped", "lost", "started"],
    },
    f"namespaces/{SPACE}/secrets/{SPACE}": {"value": "s3cret"},
}
MANUAL = {"manual": True}


def job(shell: str, trigger: dict[str, Any], **more: Any) -> dict[str, Any]:
    common = {"owner": WORDS[:128], "description": TEXT, "queue": SPACE, "labels": {"k" * 100: "v" * 200}}
    return {"trigger": trigger, "handler": {"shell": shell}, **common, **more}


def crowd(world: World) -> None:
    """Adds them. Runs are known by "crowd" (failed), "first" and "last" (of a workflow)."""
    for path, body in PUTS.items():
        world.ask("PUT", f"/v1/{path}", body)
    names = {end: f"{SPACE}/{JOB}{end}" for end in ("", "-two", "-last")}
    params = {"path": "/" + "directory/" * 30, "month": "2030-01"}
    world.put(names[""], job(FAILS, MANUAL, params=params))
    world.put(names["-two"], job("sleep 0.1", {"after": {"any_of": [names[""]], "on": "failed"}}))
    world.put(names["-last"], job("true", {"after": {"all_of": [names["-two"]]}}))
    world.put(
        f"{SPACE}/cron", job("true", {"cron": "0,5,10,15,20,25 0-6,8,9 1-7,9 1,2,3 1-5", "timezone": "Europe/Berlin"})
    )
    world.runs["crowd"] = world.run(names[""])
    world.until(world.runs["crowd"], "FAILED")
    world.ask("POST", "/v1/jobs:actions", {"action": "pause", "filter": {"namespace": SPACE, "name": "cron"}})
