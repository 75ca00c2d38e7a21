"""Prometheus and its promtool, where they are; metrics as it reads them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".venv" / "prometheus" / "usr" / "bin"  # by scripts/prometheus.sh


def program(name: str) -> str:
    """Returns the path of `prometheus` or `promtool`; skips the test where there is none."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"there is no {name} here: scripts/prometheus.sh says how it is had")
    return found


def promtool(*arguments: str, cwd: Path | None = None) -> tuple[int, str]:
    """Returns the exit code and all that it says."""
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


@dataclass
class Exported:
    """A metric as nodes export it. `labels`: of all its series, without `le`."""

    kind: str
    words: str
    labels: set[str] = field(default_factory=set)
    values: dict[str, set[str]] = field(default_factory=dict)  # by label

    def series(self, name: str) -> set[str]:
        """Returns the names by which a query asks for it."""
        return {f"{name}{end}" for end in ("_bucket", "_sum", "_count")} if self.kind == "histogram" else {name}


def exported(texts: Iterable[str]) -> dict[str, Exported]:
    """Returns the metrics of answers of /metrics by the names that the documentation has."""
    found: dict[str, Exported] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            one = found.setdefault(name, Exported(family.type, family.documentation))
            for sample in family.samples:
                for label, value in sample.labels.items():
                    if label != "le":
                        one.labels.add(label)
                        one.values.setdefault(label, set()).add(value)
    return found


class Server:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ready(self) -> bool:
        with urlopen(f"{self._url}/-/ready", timeout=5) as answer:  # raises OSError for any other status
            return bool(answer.status == 200)

    def ask(self, path: str, **query: str) -> Any:
        with urlopen(f"{self._url}/api/v1/{path}?{urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        return list(self.ask("query", query=expression)["result"])


@contextmanager
def serving(directory: Path, config: Mapping[str, Any]) -> Iterator[Server]:
    """Runs Prometheus with this configuration, and ends it."""
    (port,) = free_ports(1)
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(dict(config)))
    flags = [
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program("prometheus"), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield Server(port)
    finally:
        process.terminate()
        process.wait(30)
