"""What a manifest of Kubernetes says of a pod, worked out as Kubernetes would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
NAMESPACE = "raftsched"
_REFERENCE = re.compile(r"\$\(([A-Z_]+)\)")


def documents(*parts: str) -> list[dict[str, Any]]:
    """The objects of one file below deploy/kubernetes."""
    return [found for found in yaml.safe_load_all(ROOT.joinpath(*parts).read_text()) if found]


def everything() -> Iterator[tuple[Path, dict[str, Any]]]:
    for file in sorted(ROOT.rglob("*.yaml")):
        for found in documents(str(file.relative_to(ROOT))):
            yield file, found


def pod_of(controller: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = controller["spec"]["template"]["spec"]
    return spec


def container_of(controller: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod_of(controller)["containers"]
    found: dict[str, Any] = container
    return found


def environment(controller: dict[str, Any], pod: str) -> dict[str, str]:
    """The variables of a pod of this name: fields are looked up, and $(NAME) is what an earlier one says."""
    fields = {"metadata.name": pod, "metadata.namespace": NAMESPACE}
    found: dict[str, str] = {}
    for item in container_of(controller)["env"]:
        if "value" in item:
            value = _REFERENCE.sub(lambda m: found.get(m[1], m[0]), item["value"])
        else:
            value = fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
        found[item["name"]] = value
    return found


def mounts(controller: dict[str, Any]) -> dict[str, str]:
    """Where each volume is, by its name."""
    return {item["name"]: item["mountPath"] for item in container_of(controller)["volumeMounts"]}
