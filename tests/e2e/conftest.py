from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amounts import some
from tests.support.cluster import Cluster
from tests.support.local_cluster import LocalCluster
from tests.support.remote_workers import TOOLS, Kind, Workers, missing

HANDLERS = Path(__file__).parent / "handlers"

FOREIGN = [name for name in TOOLS if name != "raftsched"]
# In a shared run `raftsched worker` and one of the others, another in each run: Go's library takes 18 s to compile.
TRIED = ["raftsched", *some(FOREIGN)]


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


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    """The kinds of remote workers that are tried, whose tools are here."""
    return {name: Kind(name, tmp_path_factory.mktemp(name)) for name in TRIED if not missing(name)}


@pytest.fixture(scope="module", params=TRIED)
def kind(request: pytest.FixtureRequest, kinds: dict[str, Kind]) -> Kind:
    if request.param not in kinds:
        pytest.skip(f"not installed here: {', '.join(missing(request.param))}")
    return kinds[request.param]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path)
    yield made
    made.close()
