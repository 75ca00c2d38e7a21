"""A retry in one word, and fields by their path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from raftsched.cli.jobs.fields import retry_of, set_field
from tests.support.stub_server import serve
from tests.unit.cli.house import JOB, run


@pytest.mark.parametrize(
    "text, retry",
    [
        ("5s,10s, 1m", {"delays": ["5s", "10s", "1m"]}),
        ("5s,jitter=20%", {"delays": ["5s"], "jitter_percent": 20}),
        ("exponential", {"exponential": {}}),
        (
            "exponential,first=2s,factor=1.5,max=10m,attempts=8,jitter=5,on=failed,on=timed_out",
            {
                "exponential": {"first": "2s", "factor": 1.5, "max": "10m", "attempts": 8},
                "jitter_percent": 5,
                "on": ["failed", "timed_out"],
            },
        ),
    ],
)
def test_retries(text: str, retry: dict[str, Any]) -> None:
    assert retry_of(text) == retry


@pytest.mark.parametrize(
    "text, says",
    [
        ("exponential,5s", "exclude each other"),
        ("5s,max=1m", "are of 'exponential'"),
        ("exponential,speed=3", "'speed=3' is not known"),
        ("exponential,attempts=many", "attempts=many is not a number"),
        ("5s,jitter=x", "jitter=x is not a number"),
    ],
)
def test_what_is_no_retry(text: str, says: str) -> None:
    with pytest.raises(click.UsageError, match=says):
        retry_of(text)


def test_fields_by_path() -> None:
    job: dict[str, Any] = {"name": "a", "owner": "ana", "misfire": {"grace": "1m"}}
    for setting in (
        "misfire.policy=all", "placement.labels.disk=ssd", 'retention={"succeeded": 5}', "max_lost=0", "owner=null",
        'labels.n="5"', "handler.exec=[\"a\", \"b=c\"]", "timeout=", "params.x.y=true",
    ):  # fmt: skip
        set_field(job, setting)
    assert job == {
        "name": "a",
        "misfire": {"grace": "1m", "policy": "all"},
        "placement": {"labels": {"disk": "ssd"}},
        "retention": {"succeeded": 5},
        "max_lost": 0,
        "labels": {"n": "5"},
        "handler": {"exec": ["a", "b=c"]},
        "timeout": "",
        "params": {"x": {"y": True}},
    }
    for bad in ("misfire", "=x", "a..b=1", ".a=1"):
        with pytest.raises(click.UsageError, match="is not a field"):
            set_field(job, bad)
    with pytest.raises(click.UsageError, match="name is not an object"):
        set_field(job, "name.first=x")


def test_create_with_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"name": "a", "trigger": {"manual": True}, "handler": {"shell": "x"}}))
    with serve(lambda r: (201, JOB)) as stub:
        server = ("--server", stub.url, "jobs", "create")
        assert (
            run(*server, "b", "--manual", "--call", "send", "--retry", "1s,jitter=9", "--set", "max_lost=1").exit_code
            == 0
        )
        assert stub.requests[0].json == {
            "name": "b", "namespace": "default", "trigger": {"manual": True}, "handler": {"call": "send"},
            "retry": {"delays": ["1s"], "jitter_percent": 9}, "max_lost": 1,
        }  # fmt: skip
        assert run(*server, "-f", str(file), "--set", "name=c", "--set", "trigger.jitter=3s").exit_code == 0
        sent = stub.requests[1].json
        assert (sent["name"], sent["trigger"]) == ("c", {"manual": True, "jitter": "3s"})
        for more in (["--owner", "z"], ["named"], ["--", "ls"], ["--in", "1m"]):
            result = run(*server, "-f", str(file), *more)
            assert result.exit_code == 2
            assert f"{'-- ...' if more[0] == '--' else more[0]} would change nothing" in result.stderr
        assert len(stub.requests) == 2
