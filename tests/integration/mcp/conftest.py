"""One node for all tests of this folder that need no more; each takes names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from raftsched.testing import RunningCluster, running_cluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(1) as nodes:
        yield nodes
