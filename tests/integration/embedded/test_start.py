"""What a start costs, by what can be counted: modules that it imports, and rounds of the collector of cycles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.authority import ca_file
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[3]

# What a node imports when it is needed first: beside its use it says why.
LATER = (
    "raftsched.api.openapi.description",
    "raftsched.api.openapi.docs_page",
    "raftsched.backups",
    "raftsched.cli",
    "raftsched.client.aio",
    "raftsched.client.sync",
    "raftsched.crontabs",
    "raftsched.doctor",
    "raftsched.embedded.worker",
    "raftsched.leader.due.fire_traces",
    "raftsched.objectstore.directory",
    "raftsched.objectstore.s3",
    "raftsched.remote.polls",
    "raftsched.backups.restore",
    "raftsched.output.receivers",
    "raftsched.testing",
    "raftsched.tracing.tracer",
    "raftsched.ui.slim",
    "raftsched.worker.conditions.http_status",
    "raftsched.worker.executors.http",
    "raftsched.worker.executors.mail",
    "raftsched.worker.processes.supervisor",  # in a process of its own, like the executors
    "apscheduler",
    "h11",
    "jwt",
    "multiprocessing",
    "opentelemetry",
    "requests",
    "smtplib",
    "starlette",
    "unittest",
    "xml",
    "yaml",
)

STARTED = """
import asyncio, gc, os, socket, ssl, sys
from raftsched.embedded import process
from raftsched.embedded.node import Node

rounds = []
gc.callbacks.append(lambda phase, _: rounds.append(phase))
os.environ["SSL_CERT_FILE"], environment = sys.argv[2], dict(os.environ) | {"SSL_CERT_FILE": sys.argv[2]}
process._import_node()
gc.callbacks.clear()
import aiohttp.connector
read = [ssl.create_default_context(), aiohttp.connector._SSL_CONTEXT_VERIFIED]
print(len(rounds), gc.isenabled(), gc.get_freeze_count() > 0)

from raftsched.node import Sockets

def bound():
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made

async def main():
    sockets = Sockets(bound(), bound())
    http, raft = (f"127.0.0.1:{made.getsockname()[1]}" for made in sockets)
    node = Node(id="n1", data=sys.argv[1], http=http, peers={"n1": raft})
    await node.start(sockets=sockets)
    await node.ready()
    print(*sorted(sys.modules))
    print([[one.cert_store_stats()["x509_ca"] for one in read], dict(os.environ) == environment])
    await node.stop()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three lines of a node that has started in a process of its own."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", STARTED, str(tmp_path_factory.mktemp("start") / "n1"), str(ca_file())]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=patient(100), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_node_that_has_started_has_not_imported_what_few_need(told: list[str]) -> None:
    loaded = told[1].split()
    assert "raftsched.node.node" in loaded
    assert not [name for name in loaded if name.startswith(tuple(f"{late}." for late in LATER)) or name in LATER]


def test_the_collector_of_cycles_leaves_alone_what_a_node_imports(told: list[str]) -> None:
    """It looked some hundred times, found nothing, and took a sixth of the start. Afterwards it works as usual."""
    rounds, on, spared = told[0].split()
    assert rounds == "0"
    assert (on, spared) == ("True", "True")


def test_the_authorities_of_the_system_are_not_read_at_the_start(told: list[str]) -> None:
    """aiohttp would read them twice, for contexts that nothing in a node uses. Who asks for them later gets them."""
    assert told[2] == "[[1, 0], True]"
