"""Helm, where it is: the chart of deploy/helm as objects, and what Helm says against values."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "raftsched"
SDK = ROOT / ".venv" / "helm"  # by scripts/helm.sh
MINIMAL: Mapping[str, Any] = {"image": {"repository": "registry.example/raftsched"}}
# Reads one question a line, and answers each with a line. A process of its own: the library brings the runtime of Go.
_SERVER = """
import json, sys
import helm_python
for line in sys.stdin:
    asked = json.loads(line)
    try:
        if asked["do"] == "lint":
            answer = helm_python.lint(asked["chart"], asked["values"], strict=True)
            answer = [one["error"] for one in answer["messages"] if one["severity"] > 1] + answer["errors"]
        else:
            with helm_python.Chart.load(asked["chart"]) as chart:
                files = chart.render(asked["values"], name=asked["name"], namespace=asked["namespace"])
                answer = "\\n---\\n".join(text for file, text in files.items() if file.endswith(".yaml"))
        print(json.dumps({"answer": answer}), flush=True)
    except helm_python.HelmError as error:
        print(json.dumps({"error": str(error)}), flush=True)
"""


class Refused(Exception):
    """The chart does not take these values; the text says why."""


def there_is_helm() -> bool:
    return shutil.which("helm") is not None or SDK.is_dir()


class Helm:
    """By `helm`, or without it by the library that scripts/helm.sh gets. Skips the test where there is neither."""

    def __init__(self) -> None:
        if not there_is_helm():
            pytest.skip("there is no helm here: scripts/helm.sh says how it is had")
        self._command = shutil.which("helm")
        self._process: subprocess.Popen[str] | None = None
        if self._command is None:
            environment = {**os.environ, "PYTHONPATH": str(SDK)}
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    def __enter__(self) -> Helm:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def render(
        self, values: Mapping[str, Any], name: str = "raftsched", namespace: str = "raftsched", chart: Path = CHART
    ) -> list[dict[str, Any]]:
        """Returns the objects of a release. Raises Refused."""
        asked = {"do": "render", "chart": str(chart), "values": values, "name": name, "namespace": namespace}
        text = self._ask(asked) if self._process else self._run("template", name, chart, "-n", namespace, values=values)
        return [found for found in yaml.safe_load_all(text) if found]

    def lint(self, values: Mapping[str, Any]) -> list[str]:
        """Returns what there is to say, without advice."""
        if self._process:
            found: list[str] = self._ask({"do": "lint", "chart": str(CHART), "values": values})
            return found
        try:
            self._run("lint", CHART, "--strict", "--quiet", values=values)
        except Refused as error:
            return [str(error)]
        return []

    def _run(self, *arguments: str | Path, values: Mapping[str, Any]) -> str:
        assert self._command is not None
        done = subprocess.run(
            [self._command, *arguments, "--kube-version", "1.27", "-f", "-"],
            input=json.dumps(values),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(done.stdout + done.stderr)
        return done.stdout

    def _ask(self, asked: Mapping[str, Any]) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["answer"]
