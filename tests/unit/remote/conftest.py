from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.async_tests import entered
from tests.unit.remote import gateway_world
from tests.unit.remote.gateway_world import World
from tests.unit.remote.polls_world import PollsWorld
from tests.unit.worker.world import started


@pytest.fixture
def world(jumping_runner: asyncio.Runner) -> Iterator[World]:
    with entered(jumping_runner, gateway_world.started()) as world:
        yield world


@pytest.fixture
def polls(request: pytest.FixtureRequest, tmp_path: Path, jumping_runner: asyncio.Runner) -> Iterator[PollsWorld]:
    """A remote worker and three nodes, or as many as are asked for."""
    nodes = getattr(request, "param", 3)
    with entered(jumping_runner, started(partial(PollsWorld, tmp_path, nodes))) as world:
        yield world
