from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.cluster_settings import Settings
from raftsched.core.commands import PutSettings
from tests.support.async_tests import entered
from tests.support.local_api import Client, several_nodes


@pytest.fixture
def nodes(tmp_path: Path, asyncio_runner: asyncio.Runner) -> Iterator[list[Client]]:
    """Clients of n1, n2 and n3, each of which may run jobs."""
    with entered(asyncio_runner, several_nodes(tmp_path, ("n1", "n2", "n3"))) as clients:
        yield clients


@pytest.fixture
def first(nodes: list[Client]) -> Client:
    return nodes[0]


@pytest.fixture
def second(nodes: list[Client]) -> Client:
    return nodes[1]


@pytest.fixture
def third(nodes: list[Client]) -> Client:
    return nodes[2]


@pytest.fixture
def copied(first: Client) -> None:
    """The settings want two copies of output."""
    first.cluster.apply(PutSettings(Settings(output_copies=2)))
