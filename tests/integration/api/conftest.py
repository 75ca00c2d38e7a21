from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.async_tests import entered
from tests.support.local_api import Client, one_node


@pytest.fixture
def call(tmp_path: Path, asyncio_runner: asyncio.Runner) -> Iterator[Client]:
    """A client of the API of one node."""
    with entered(asyncio_runner, one_node(tmp_path)) as client:
        yield client
