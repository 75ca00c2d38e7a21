"""Jobs as an earlier version read them give the same stored bodies, commands and answers. Fields
that came since may be added to commands and answers, with their defaults."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.api.jobs.defaults import NamespaceDefaults
from raftsched.api.jobs.parse import create_command, read_job
from raftsched.api.jobs.render import job_json
from raftsched.cluster_settings import Settings
from raftsched.core.commands import decode
from raftsched.core.model import Job, JobState
from raftsched.surface.jobs_generated import DefaultsIn

NOW_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
CASES: list[dict[str, Any]] = [
    msgspec.json.decode(line)
    for line in lzma.decompress((Path(__file__).parent / "jobs-0001.jsonl.xz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=[str(i) for i in range(len(CASES))])
def test_a_job_is_stored_and_shown_as_before(case: dict[str, Any]) -> None:
    of_namespace = msgspec.convert(case["defaults"], DefaultsIn | None)
    defaults = NamespaceDefaults(0 if of_namespace is None else 7, of_namespace)
    content = read_job(case["given"].encode(), Settings(), NOW_MS, lambda _: defaults)
    assert content.body.decode() == case["body"]
    assert decode(create_command(content)) == decode(bytes.fromhex(case["command"]))
    job = Job(
        id=77,
        namespace=content.namespace or "default",
        name=content.name,
        revision=3,
        state=JobState.SUSPENDED,
        policy=content.policy,
        body=content.body,
        created_at_ms=NOW_MS,
        modified_at_ms=NOW_MS + 1,
        anchor_at_ms=NOW_MS,
    )
    shown, before = _fields(job_json(job, NOW_MS, lambda _: None)), _fields(case["shown"])
    assert {name: shown.get(name) for name in before} == before
