"""examples/keda: what it asks Prometheus for are metrics that there are."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

EXAMPLE = Path(__file__).parents[3] / "examples" / "keda"
SOURCES = Path(__file__).parents[3] / "raftsched"
NAME = re.compile(r"\braftsched_\w+")


def test_its_metrics_are_those_of_the_nodes() -> None:
    made = set(NAME.findall((SOURCES / "api" / "cluster" / "scaling_metrics.py").read_text("utf-8")))
    deployment, scaled = yaml.safe_load_all((EXAMPLE / "scaledobject.yaml").read_text("utf-8"))
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    queries = [one["metadata"]["query"] for one in scaled["spec"]["triggers"]]
    asked = {name for query in queries for name in NAME.findall(query)}
    assert len(asked) == len(queries)
    assert asked <= made
    told = set(NAME.findall((EXAMPLE / "README.md").read_text("utf-8")))
    assert asked | {"raftsched_queue_worker_slots"} <= told <= made


def test_a_pod_has_more_time_than_its_worker_takes() -> None:
    deployment, _ = yaml.safe_load_all((EXAMPLE / "scaledobject.yaml").read_text("utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    (grace,) = [arg for arg in pod["containers"][0]["args"] if arg.startswith("--grace=")]
    assert pod["terminationGracePeriodSeconds"] > int(grace.removeprefix("--grace=").removesuffix("s"))
