from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.async_tests import entered
from tests.unit.remote.polls_world import PollsWorld
from tests.unit.worker.node_world import NodeWorld
from tests.unit.worker.world import World, started


@pytest.fixture(params=[NodeWorld, PollsWorld], ids=["node", "polls"])
def w(request: pytest.FixtureRequest, tmp_path: Path, jumping_runner: asyncio.Runner) -> Iterator[World]:
    """A worker of either kind."""
    with entered(jumping_runner, started(partial(request.param, tmp_path))) as world:
        yield world


@pytest.fixture
def own(tmp_path: Path, jumping_runner: asyncio.Runner) -> Iterator[NodeWorld]:
    with entered(jumping_runner, started(partial(NodeWorld, tmp_path))) as world:
        yield world
