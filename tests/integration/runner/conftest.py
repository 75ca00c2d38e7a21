from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runner.bed import Bed
from tests.support.async_tests import entered


@pytest.fixture
def bed_options() -> dict[str, Any]:
    """What `bed` is made with. Modules override it."""
    return {}


@pytest.fixture
def bed(tmp_path: Path, bed_options: dict[str, Any], asyncio_runner: asyncio.Runner) -> Iterator[Bed]:
    """A runner that is started. Tests that want another one, or prepare what it starts in: `async with Bed(...)`."""
    with entered(asyncio_runner, Bed(tmp_path, **bed_options)) as started:
        yield started
