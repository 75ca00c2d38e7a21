"""Certificates for tests: one authority for a session, whose keys are made once."""

from __future__ import annotations

import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from raftsched.security.certificates import Pair, make_ca, make_node

DAY_MS = 86_400_000
CLUSTER = "tests"


class Files(NamedTuple):
    cert: Path
    key: Path


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@lru_cache(maxsize=8)
def authority(name: str = CLUSTER) -> Pair:
    return make_ca(name, now_ms())


@lru_cache(maxsize=64)
def certificate(
    node: str = "n1", hosts: tuple[str, ...] = ("127.0.0.1", "localhost"), *, by: str = CLUSTER, days: int = 90
) -> Pair:
    """`days`: how long it is valid from now on; negative: it has expired so long ago, and was valid for a day."""
    made_ms = now_ms() if days >= 0 else now_ms() + (days - 1) * DAY_MS
    return make_node(authority(by), CLUSTER, node, hosts, made_ms, days if days >= 0 else 1)


@lru_cache(maxsize=1)
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="raftsched-tls-")


@lru_cache(maxsize=8)
def ca_file(name: str = CLUSTER) -> Path:
    file = Path(_directory().name) / f"{name}.ca.pem"
    file.write_bytes(authority(name).certificate)
    return file


def put(directory: Path, pair: Pair, name: str = "node") -> Files:
    """As files, each put in place of what was there in one step."""
    files = Files(directory / f"{name}.pem", directory / f"{name}.key")
    for file, content in zip(files, pair, strict=True):
        beside = file.with_suffix(".new")
        beside.write_bytes(content)
        beside.chmod(0o600)
        beside.replace(file)
    return files
