"""What a batch proposes fits the log, whatever its jobs have beside their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from raftsched.api.auth.callers import Caller, RequestContext, RequestState, begin_request, end_request, signed
from raftsched.api.http.idempotency import Named
from raftsched.api.http.slices import Slices
from raftsched.api.jobs import batch
from raftsched.api.jobs.defaults import NO_DEFAULTS
from raftsched.api.jobs.joined import PROPOSAL_BYTES
from raftsched.api.ports import Reply
from raftsched.cluster_settings import Settings
from raftsched.core.levels import JOBS_ARE_JOINED
from raftsched.core.subjects.access import Role
from raftsched.raft.options import RaftOptions

NAMED = Named(b"k" * 32, b"d" * 32)


async def sizes_of(jobs: Sequence[dict[str, Any]]) -> list[int]:
    """Returns the bytes of each proposal that a batch of these jobs makes."""
    sizes: list[int] = []
    settings = Settings()

    def propose_then(commands: Sequence[bytes], reply: Reply) -> None:
        sizes.append(sum(map(len, signed(commands))))

    ctx = SimpleNamespace(
        settings=lambda: settings,
        now_ms=lambda: 0,
        defaults_of=lambda namespace: NO_DEFAULTS,
        meta=lambda: SimpleNamespace(level=JOBS_ARE_JOINED),
        propose_then=propose_then,
    )
    who = Caller(Role.EDITOR, actor=7, name="n" * 512, counted=False)
    call = RequestContext(who, "jobs_create_batch", work=True, state=RequestState(), needed=Role.EDITOR)
    token = begin_request(call)
    try:
        given = [msgspec.json.encode(job) for job in jobs]
        await batch._propose(cast(Any, ctx), given, [NAMED] * 10, [b""] * len(given), Slices())
    finally:
        end_request(token)
    return sizes


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("text", ["", "x" * 150, "x" * 30_000])
async def test_proposals_of_a_batch_fit_the_log(text: str, alike: bool) -> None:
    jobs = [
        {
            "trigger": {"at": "2030-01-01T00:00:00Z"},
            "handler": {"exec": ["true"]},
            "name": f"{place:04}".ljust(128, "n"),
            "params": {"text": text},
            "priority": 1 if alike else 1 + place % 2,
        }
        for place in range(50 if len(text) > 1_000 else 2_000)
    ]
    sizes = await sizes_of(jobs)
    assert max(sizes) <= RaftOptions().entry_max_bytes
    assert len(sizes) <= 3 + 2 * sum(sizes) // PROPOSAL_BYTES
