from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster

HANDLERS = Path(__file__).parent / "handlers"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes that the tests of a module share; those that kill nodes start them again."""
    with Cluster(3, pythonpath=HANDLERS) as running:
        yield running
