"""A run that says how far it is, keeps a state, puts itself off and goes on later, on real nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e

SCRIPT = """
if [ -z "$RAFTSCHED_STATE" ]; then
  echo '{"progress": 40, "text": "copying"}' >&3
  echo '{"state": {"row": 7}}' >&3
  echo '{"outcome": "snooze 1s", "reason": "busy"}' >&3
  exit 1
fi
echo "$RAFTSCHED_STATE $RAFTSCHED_SNOOZES $RAFTSCHED_ATTEMPT"
exit 5
"""


def test_a_run_goes_on_where_it_was(cluster: LocalCluster, tmp_path: Path) -> None:
    leader = cluster.leader()
    job = {
        "trigger": {"manual": True},
        "handler": {"shell": SCRIPT},
        "outcomes": {"exit": {"5": "succeed"}},
        "expires": "1h",
    }
    made = create(leader, job)
    row = wait_final(cluster, leader, run(leader, made["id"]))
    assert (row["state"], row["snoozes"], row["exit_code"], row["dead_letter"]) == ("SUCCEEDED", 1, 5, False)
    assert row["saved_state"] == {"row": 7}
    assert [(a["number"], a["outcome"], a["error"]) for a in row["attempts"]] == [
        (1, "snoozed", "busy"),
        (2, "succeeded", None),
    ]
    output = leader.request("GET", f"/v1/instances/{row['id']}/output").body.decode()
    assert output == '{"row":7} 1 2\n'
    steps = [step["kind"] for step in leader.get(f"/v1/instances/{row['id']}/explain")["steps"]]
    assert "snoozed" in steps
