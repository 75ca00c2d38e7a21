"""Starts a cluster for tests of a Django project, whose runs work on the databases of the test.

    class Sent(TransactionTestCase):
        def test_it_is_sent(self):
            with raftsched.django.testing.cluster() as cluster:
                job = send_invoice.enqueue(7)
                assert cluster.client.jobs.wait(job, timeout=30).state == "SUCCEEDED"

Most tests need none: raftsched.testing.inline() runs what is enqueued at once, within the transaction of a TestCase.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.conf import ENVIRONMENT_VARIABLE
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from raftsched.client import program
from raftsched.django import conf
from raftsched.django.processes import DATABASES

if TYPE_CHECKING:
    from raftsched.testing.running import RunningCluster


@contextmanager
def cluster(size: int = 1, **settings: Any) -> Iterator[RunningCluster]:
    """Gives nodes that are ready, with the project's handlers, until the block is left; what is enqueued meanwhile goes
    to them. `settings`: as for raftsched.testing.running_cluster. Runs are other processes: they see what is
    committed, so the test is a TransactionTestCase (with pytest-django: `transaction=True`), and no database of it is
    in memory: ImproperlyConfigured."""
    from raftsched.testing.running import running_cluster

    names = {}
    for alias in connections:
        connection = connections[alias]
        if connection.vendor == "sqlite" and connection.is_in_memory_db():
            raise ImproperlyConfigured(
                f"the database {alias!r} of the tests is in memory, and runs are other processes; write"
                f' DATABASES[{alias!r}]["TEST"] = {{"NAME": BASE_DIR / "test.sqlite3"}}'
            )
        names[alias] = str(connection.settings_dict["NAME"])
    before = program.source
    passed = (ENVIRONMENT_VARIABLE, DATABASES, *conf.environment())
    mine = {
        "handlers": ["raftsched.django.found"],
        "python_first": ["raftsched.django.processes"],
        "env_pass": list(passed),
        "executors": ["call", "http"],
    }
    os.environ[DATABASES] = json.dumps(names)
    try:
        with running_cluster(size, **{**mine, **settings}) as running:
            program.source = lambda: program.Said({"servers": running.servers}, before().namespace)
            try:
                yield running
            finally:
                program.source = before
    finally:
        del os.environ[DATABASES]
