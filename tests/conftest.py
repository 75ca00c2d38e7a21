"""Settings for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from raftsched.system import background

pytest_plugins = ["tests.support.async_tests", "tests.support.costs"]

# A busy machine is no failure; and a failure says how to see it again.
settings.register_profile("raftsched", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("raftsched")

# Jobs of tests write where the tests do. A node that is root runs jobs as nobody, unless it is told otherwise.
if os.geteuid() == 0:
    os.environ.setdefault("RAFTSCHED_RUN_AS", "root")


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the collector need not look at it again beside each test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_task_met_a_fault() -> Iterator[None]:
    """What tasks of a node raise is only counted, so that it goes on; a test that wants it clears the counts."""
    background.forget()
    yield
    faults, where = dict(background.failures), background.told()
    background.forget()
    assert not faults, f"{faults} at {where}"


@pytest.fixture
def faults(no_task_met_a_fault: None) -> Iterator[Counter[background.TaskName]]:
    """The faults of tasks so far, by task, for a test that wants some."""
    yield background.failures
    background.forget()


@pytest.fixture(autouse=True)
def sigterm_is_as_before() -> Iterator[None]:
    """A keeper takes SIGTERM; a test that is one gives it back."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
