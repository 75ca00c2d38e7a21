"""Gives pytest fixtures with a cluster. Installed with raftsched, nothing has to be said to have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from raftsched.testing.running import RunningCluster


@pytest.fixture
def raftsched_cluster() -> Iterator[RunningCluster]:
    """Three nodes of a test's own, in a thread of this process; see raftsched.testing. For one that tests share, or of
    another size, write a fixture around raftsched.testing.running_cluster."""
    from raftsched.testing import running_cluster

    with running_cluster() as cluster:
        yield cluster
