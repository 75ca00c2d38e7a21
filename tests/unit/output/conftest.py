from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.output.keeping.store import OutputStore
from tests.unit.output.stores import Opened


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens stores, and closes those that are open at the end."""
    stores: list[OutputStore] = []

    def opened(directory: Path = tmp_path, **options: Any) -> OutputStore:
        stores.append(OutputStore(directory, **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()
