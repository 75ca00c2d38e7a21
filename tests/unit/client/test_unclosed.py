"""Clients that nobody closes: they end without a word, with their last reference or with the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import raftsched
from tests.support.patience import patient
from tests.support.stub_server import serve

ROOT = Path(raftsched.__file__).parent.parent
HEAD = "import asyncio, gc, sys, threading, raftsched\nurl = sys.argv[1]\n"
PROGRAMS = {
    "at the end": "client = raftsched.Client(url)\nlist(client.jobs.list())\n",
    "by an exception": "client = raftsched.Client(url)\nlist(client.jobs.list())\nsys.exit(3)\n",
    "with its last reference": """
client = raftsched.Client(url)
list(client.jobs.list())
(thread,) = [t for t in threading.enumerate() if t.name == "raftsched client"]
del client
gc.collect()
thread.join()
""",
    "in an event loop": """
async def main():
    client = raftsched.AsyncClient(url)
    assert [job async for job in client.jobs.list()] == []
    del client
    gc.collect()
asyncio.run(main())
""",
    "after its event loop": """
client = raftsched.AsyncClient(url)
async def main():
    assert [job async for job in client.jobs.list()] == []
asyncio.run(main())
""",
}


@pytest.mark.parametrize("how", PROGRAMS)
def test_it_says_nothing(how: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(HEAD + PROGRAMS[how])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED")} | {"PYTHONPATH": str(ROOT)}
    with serve(lambda _: (200, {"items": [], "next": None})) as stub:
        done = subprocess.run(
            [sys.executable, "-W", "default", str(program), stub.url],
            env=environment, capture_output=True, text=True, timeout=patient(60), check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (3 if "exception" in how else 0, "", "")
