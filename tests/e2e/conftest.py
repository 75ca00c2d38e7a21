from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.local_cluster import LocalCluster

HANDLERS = Path(__file__).parent / "handlers"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three nodes in this process that the tests of a module share. Each module has its own: to start three costs less
    than to keep them while nobody asks them anything."""
    with LocalCluster(3, pythonpath=HANDLERS) as running:
        yield running


@pytest.fixture(scope="module")
def processes() -> Iterator[Cluster]:
    """Three processes that the tests of a module share; those that kill nodes start them again."""
    with Cluster(3, pythonpath=HANDLERS) as running:
        yield running
