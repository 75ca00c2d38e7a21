"""A calendar on real nodes: days that it excludes are not run, whoever leads, a change holds at once, and what is moved
comes at the end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.steps import create, wait_instances
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e

PATH = "/v1/calendars/closed"


def test_a_calendar_holds_over_a_failover_and_lets_go_when_it_is_changed() -> None:
    with Cluster(3) as cluster:
        leader = cluster.leader()
        days = {"weekdays": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}
        assert leader.request("PUT", PATH, days).status == 201
        jobs = [
            create(leader, {"trigger": {**trigger, "calendar": "closed"}, "handler": {"shell": "true"}})
            for trigger in ({"every": "1s"}, {"cron": "* * * * * *"}, {"rrule": "FREQ=SECONDLY"})
        ]
        assert leader.request("DELETE", PATH).status == 409
        leader.kill()
        new = cluster.leader()
        for job in jobs:
            path = f"/v1/jobs/{job['id']}"
            cluster.wait("the error", lambda path=path: "excluded" in (new.get(path)["error"] or ""))
            shown = new.get(path)
            assert (shown["state"], shown["next_fire_at"], shown["runs"]) == ("SCHEDULED", None, 0)
        began = datetime.now(UTC)
        assert new.request("PUT", PATH, {}).status == 200
        for job in jobs:
            rows = wait_instances(cluster, new, job["id"], 2)
            assert all(row["scheduled_at"] >= began.isoformat()[:19] for row in rows)
        end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
        hours = {"excludes": [{"from": began.isoformat(), "to": end.isoformat()}]}
        assert new.request("PUT", PATH, hours).status == 200
        due = (end - timedelta(seconds=2)).isoformat()
        trigger = {"every": "1h", "starts_at": due, "calendar": "closed", "calendar_action": "move"}
        handler = {"exec": ["/bin/echo", "at {due:%s}, try {attempt}"], "template": True}
        moved = create(new, {"trigger": trigger, "handler": handler})
        (row,) = wait_instances(cluster, new, moved["id"], 1)
        assert row["scheduled_at"] == f"{end.isoformat()[:19]}.000Z"
        printed = new.request("GET", f"/v1/instances/{row['id']}/output").body.decode()
        assert printed == f"at {int(end.timestamp())}, try 1\n"
