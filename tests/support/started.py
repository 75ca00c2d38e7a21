"""Lines of the records of a run of tests (costs.py says which): also for programs that tests start."""

from __future__ import annotations

import json
import os
from pathlib import Path
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
        with open(Path(folder) / f"{os.getpid()}.jsonl", "a") as file:
            file.write(line)
