"""Lines of the records of a run of tests (costs.py says which): also for programs that tests start."""

from __future__ import annotations

import json
import os
from typing import Any

RECORDS = "RAFTSCHED_TEST_RECORDS"
LANE = "RAFTSCHED_TEST_LANE"


def started(what: str) -> None:
    """Records that a node, a cluster, a browser, a simulator or a venv was started for the test that runs."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    write_record({"kind": "started", "what": what, "test": test})


def write_record(record: dict[str, Any]) -> None:
    """Appends a line to the file of this process, where records are kept."""
    if folder := os.environ.get(RECORDS):
        line = json.dumps({**record, "lane": os.environ.get(LANE, "")}) + "\n"
        descriptor = os.open(f"{folder}/{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
