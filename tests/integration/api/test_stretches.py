"""No request holds the event loop for long, whatever its size and whoever sends it: a share of the operations in each
run, all of them in `./scripts/strangers stretches`."""

from __future__ import annotations

import random
import secrets
import time
from pathlib import Path

import pytest

from tests.support.amounts import TESTS
from tests.support.stretches import MOST_S, operations, served
from tests.support.stretches_corpus import DEAR

pytestmark = pytest.mark.slow

SHARE_S = 4.0  # of processor time, where all tests run; one operation at the least


@pytest.fixture
def number() -> int:
    """Another seed each time; it is printed with what fails."""
    found = secrets.randbits(32)
    print(f"seed {found}")
    return found


def test_no_request_holds_the_event_loop(tmp_path: Path, number: int) -> None:
    chosen = random.Random(number)
    possible = operations()
    some = possible if not TESTS else chosen.sample(possible, len(possible))
    until_s = time.process_time() + SHARE_S
    held = []
    with served(tmp_path) as server:
        for operation in some:
            own = random.Random(f"{number} {operation.id}")
            for found in server.try_out(operation, own, 2):
                if found.seconds > MOST_S:
                    held.append(str(found))
                if TESTS and time.process_time() > until_s:
                    break
            if TESTS and time.process_time() > until_s:
                break
    assert not held, "\n".join(held)


def test_what_is_known_to_be_dear_is_of_an_operation() -> None:
    names = {operation.id.removesuffix("_by_name") for operation in operations()}
    assert DEAR.keys() <= names
