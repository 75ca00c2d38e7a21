"""A Redis of a test's own, where there is the program."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.support.patience import patient, wait_until
from tests.support.ports import free_ports

UNPACKED = Path(__file__).parents[2] / ".venv" / "redis" / "usr"  # by scripts/redis.sh


def program() -> tuple[str, dict[str, str]] | None:
    """Returns the path of the server, and what its environment has to say beside that of the test."""
    found = shutil.which("redis-server")
    if found is not None:
        return found, {}
    unpacked = UNPACKED / "bin" / "redis-server"
    libraries = ":".join(str(path) for path in (UNPACKED / "lib").glob("*-linux-gnu*"))
    return (str(unpacked), {"LD_LIBRARY_PATH": libraries}) if unpacked.exists() else None


@contextmanager
def serving() -> Iterator[str]:
    """Runs a server without a disk, and gives its address. Skips the test where there is none."""
    found = program()
    if found is None:
        pytest.skip("there is no redis-server here: scripts/redis.sh says how it is had")
    path, environment = found
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [path, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        with redis.Redis(port=port) as client:
            wait_until(client.ping, "redis answers", passing=(redis.ConnectionError,))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(patient(30))
