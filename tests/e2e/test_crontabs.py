"""The real crontabs, imported as a user would; every schedule that went in agrees with two other implementations."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from raftsched.crontabs.reading import read_crontab
from tests.e2e.steps import command
from tests.support.cron_oracle import Oracle, clock_changes
from tests.support.crontab_lines import DIRECTORY
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e

ZONE = "Europe/Madrid"
COUNT = 5
FROM = datetime(2027, 5, 3, 9, 17, 31, tzinfo=UTC)  # a quiet time of the year for the second opinions
HORIZON = timedelta(days=90)


def run(cluster: LocalCluster, *words: str) -> tuple[int, str]:
    """(exit code, all that is printed) of the command line, speaking to the cluster. No process of its own: there are
    many files, and they are what is in question."""
    done = command(cluster.nodes[0].url, *words)
    return done.exit_code, done.output


def all_jobs(cluster: LocalCluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    path: str | None = f"/v1/jobs?namespace={namespace}&limit=1000"
    while path:
        page = cluster.nodes[0].get(path)
        found += page["items"]
        path = f"/v1/jobs?namespace={namespace}&limit=1000&cursor={page['next']}" if page["next"] else None
    return found


@pytest.fixture(scope="module")
def imported(cluster: LocalCluster) -> dict[str, list[dict[str, Any]]]:
    """Namespace (the file's number) -> jobs, after importing every file twice."""
    result = {}
    for number, path in enumerate(sorted(DIRECTORY.glob("*.crontab"))):
        namespace = f"file{number}"
        words = ("jobs", "import", "--from", "crontab", str(path), "--suspended", "-N", namespace, "-z", ZONE)
        code, output = run(cluster, *words)
        assert code in (0, 1), (path.name, output)
        once = all_jobs(cluster, namespace)
        assert run(cluster, *words)[0] == code
        again = all_jobs(cluster, namespace)
        assert [(j["id"], j["revision"]) for j in once] == [(j["id"], j["revision"]) for j in again], path.name
        assert {j["state"] for j in again} <= {"NEW"}
        result[path.name] = again
    return result


def test_every_file_went_in(imported: dict[str, list[dict[str, Any]]]) -> None:
    assert len(imported) == len(list(Path(DIRECTORY).glob("*.crontab")))
    assert sum(map(len, imported.values())) > 100
    for jobs in imported.values():
        for job in jobs:
            assert job["overlap"] == "allow", "runs of a crontab may overlap"
            assert "shell" in job["handler"]


def test_next_times_agree_with_both_oracles(cluster: LocalCluster, imported: dict[str, list[dict[str, Any]]]) -> None:
    compared = 0
    start = int(FROM.timestamp())
    for name, jobs in imported.items():
        for job in jobs:
            trigger = job["trigger"]
            if "cron" not in trigger:
                assert "every" in trigger, (name, job)
                continue
            reply = cluster.nodes[0].request(
                "POST", "/v1/schedules/preview", {"trigger": trigger, "from": FROM.isoformat(), "count": COUNT}
            )
            assert reply.status == 200, (name, trigger, reply.body)
            ours = [round(datetime.fromisoformat(n["at"]).timestamp()) for n in reply.json["next"]]
            zone = trigger.get("timezone", "UTC")
            oracle = Oracle(trigger["cron"], zone, trigger.get("dialect", ""))
            end = start + int(HORIZON.total_seconds())
            fires = oracle.fires(start + 1, end)
            theirs = [at for at, _ in zip(fires, range(COUNT), strict=False)]
            assert [at for at in ours if at < end][: len(theirs)] == theirs, (name, trigger)
            compared += 1
            if len(trigger["cron"].split()) == 5 and "H" not in trigger["cron"] and theirs:
                if any(start <= change <= theirs[-1] for change in clock_changes(zone, 2027, 2027)):
                    continue
                second = CronSim(trigger["cron"], FROM.astimezone(ZoneInfo(zone)))
                assert [round(next(second).timestamp()) for _ in theirs] == theirs, (name, trigger)
    assert compared > 90


def test_what_cannot_be_imported_is_listed_and_the_rest_goes_in(cluster: LocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "mixed.crontab"
    file.write_bytes(
        b"\xef\xbb\xbf# with a byte order mark\r\n"
        b"GREETING=hello\r\n"
        b"0 12 13 * FRI echo $GREETING\r\n"
        b"61 * * * * echo never\r\n"
        b"@reboot echo at boot\r\n"
        b"0 9 * * MON-FRI cat%one%two\r\n"
        b"this is prose\r\n"
    )
    code, said = run(
        cluster, "jobs", "import", "--from", "crontab", str(file), "-N", "mixed", "-z", ZONE, "--suspended"
    )
    assert code == 1
    for number in (4, 5, 7):
        assert any(str(number) in line for line in said.splitlines()), said
    jobs = all_jobs(cluster, "mixed")
    assert sorted(j["trigger"]["cron"] for j in jobs) == ["0 12 13 * FRI", "0 9 * * MON-FRI"]
    job = next(j for j in jobs if "13" in j["trigger"]["cron"])
    assert json.dumps(job["handler"]).count("GREETING") >= 1


# What cron would read as a line of a job: a time and a command. Some of the files are texts about cron, too.
JOB_LINE = re.compile(r"-?(?:@[a-z]+|[0-9*][0-9*/,-]*(?:\s+[0-9A-Za-z*/,-]+){4})\s+\S")
BY_HAND_MAX = 5  # lines that somebody has to write for a crontab, beside the command that imports it


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.crontab")), ids=lambda path: path.stem)
def test_hardly_a_line_of_a_crontab_is_left_to_be_written_by_hand(path: Path) -> None:
    tab = read_crontab(path.read_bytes(), source=path.name, timezone=ZONE)
    by_hand = [line for line in tab.refused if JOB_LINE.match(line.text)]
    assert len(by_hand) <= BY_HAND_MAX, by_hand
    assert all("@reboot" in line.reason or "may be a user" in line.reason for line in by_hand), by_hand
