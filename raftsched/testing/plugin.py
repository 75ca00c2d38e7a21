"""Gives pytest fixtures: a cluster, and runs without one. They are there where raftsched is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from raftsched.testing.inline_runs import InlineRuns
    from raftsched.testing.running import RunningCluster


@pytest.fixture
def raftsched_cluster() -> Iterator[RunningCluster]:
    """Three nodes of a test's own, in a thread of this process; see raftsched.testing. For one that tests share, or of
    another size, write a fixture around raftsched.testing.running_cluster."""
    from raftsched.testing import running_cluster

    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def raftsched_inline() -> Iterator[InlineRuns]:
    """Lists what the test enqueues, which runs at once in this process; see raftsched.testing.inline."""
    from raftsched.testing import inline

    with inline() as runs:
        yield runs
