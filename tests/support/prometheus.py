"""Prometheus and its promtool, where they are; metrics as it reads them."""

from __future__ import annotations

import json
import re
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

from tests.support.patience import patient
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
    """Returns the exit code and all that it says. Tests of rules are half a minute of processor time, and come last
    where others want it."""
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=patient(300), check=False)
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
        process.wait(patient(30))


_NAME = re.compile(r"(?<![\w:$])((?:raftsched|process_)[a-z0-9_:]+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_LISTS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


@dataclass
class Asked:
    """The names that a query has: of metrics and recording rules with the matchers of each, and of labels."""

    names: set[str]
    matchers: list[tuple[str, str, str]]  # metric, label, value or pattern
    labels: set[str]


def asked(expression: str) -> Asked:
    """Finds names in a query. It does not parse it: that is left to Prometheus."""
    found = list(_NAME.finditer(expression))
    matchers = [(one[1], label, value) for one in found for label, _, value in _MATCHER.findall(one[2] or "")]
    labels = {label.strip() for inner in _LISTS.findall(expression) for label in inner.split(",") if label.strip()}
    return Asked({one[1] for one in found}, matchers, labels)
