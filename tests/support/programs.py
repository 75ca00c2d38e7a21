"""Programs of examples/, started as their README does, and killed."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.patience import patient, wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Program:
    """A Python program that runs in the directory of its example, and prints to a file."""

    def __init__(self, example: str, words: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")}
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                cwd=EXAMPLES / example,
                env={**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    @property
    def printed(self) -> str:
        return self._log.read_text()

    def wait(self, what: str, condition: Callable[[], Any]) -> Any:
        """Returns what the condition gives once that is true; what it printed is in the words of the failure."""
        passing = (OSError, http.client.HTTPException)
        return wait_until(condition, lambda: f"{what}\n{self.printed[-3000:]}", passing=passing)

    def kill(self) -> None:
        """Ends it as a lost machine does: it has no time to do anything."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Asks it to end, and returns its exit code."""
        self.process.terminate()
        return self.process.wait(patient(60))


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Returns the status and the JSON of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patient(30))
    try:
        raw = None if body is None else json.dumps(body)
        connection.request(method, path, raw, {"Content-Type": "application/json"} if raw else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()
