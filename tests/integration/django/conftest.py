"""Django, set up once in the process of these tests with the example's project, and its databases in files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import raftsched
from raftsched import handlers
from raftsched.client import declared, program
from raftsched.testing.running import RunningCluster

ROOT = Path(raftsched.__file__).parent.parent
EXAMPLE = ROOT / "examples" / "django"
SETTINGS = "tests.integration.django.settings"


@pytest.fixture(scope="package", autouse=True)
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The project's modules. What it changes in this process is put back: other tests come after these."""
    pytest.importorskip("django")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        patch.setenv("DJANGO_SETTINGS_MODULE", SETTINGS)
        patch.setenv("TZ", "UTC")  # which Django sets, as the settings say
        patch.setenv("SHOP_DATA", str(tmp_path_factory.mktemp("shop")))
        for name in ("RAFTSCHED_SERVER", "RAFTSCHED_CONTEXT", "RAFTSCHED_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setattr(handlers, "registered", dict(handlers.registered))
        patch.setattr(declared, "registered", dict(declared.registered))
        source = program.source
        import django

        django.setup()
        from billing import models, tasks
        from django.core.management import call_command

        from tests.integration.django.ledger import tasks as ledger

        call_command("migrate", verbosity=0)
        call_command("migrate", verbosity=0, database="ledger")
        yield SimpleNamespace(Invoice=models.Invoice, tasks=tasks, ledger=ledger)
        from django.db import connections

        connections.close_all()
        program.source = source
    time.tzset()
    assert str(EXAMPLE) not in sys.path


@pytest.fixture(autouse=True)
def empty(project: SimpleNamespace) -> Iterator[None]:
    """Each test begins without invoices and ends outside of transactions: it commits for real."""
    from django.db import connections

    project.Invoice.objects.all().delete()
    yield
    assert not [alias for alias in connections if connections[alias].in_atomic_block]


@pytest.fixture(scope="module")
def cluster(project: SimpleNamespace) -> Iterator[RunningCluster]:
    """A node with the project's handlers, which the tests of a module share."""
    from raftsched.django import testing

    with testing.cluster(1, slots=2) as running:  # each process of runs imports the project
        yield running
