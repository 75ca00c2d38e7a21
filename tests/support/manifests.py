"""What a manifest of Kubernetes says of a pod, worked out as Kubernetes would."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support import operators

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
NAMESPACE = "raftsched"
KUBERNETES = ("1.27", "1.37")  # the oldest that docs/kubernetes.md names, and the newest that there is a schema of
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


def kustomized(components: Collection[str], directory: Path) -> list[dict[str, Any]]:
    """Returns the objects of the example with these components, by kubectl. `directory`: where its copy goes. Skips the
    test where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    shutil.copytree(ROOT, directory / "kubernetes")
    example = directory / "kubernetes" / "example" / "kustomization.yaml"
    said = yaml.safe_load(example.read_text())
    said["components"] = [f"../components/{name}" for name in components]
    if "workers" not in components:
        said["patches"] = [patch for patch in said["patches"] if patch["target"]["kind"] != "Deployment"]
    example.write_text(yaml.safe_dump(said))
    done = subprocess.run([kubectl, "kustomize", example.parent], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def errors_of(found: dict[str, Any]) -> list[str]:
    """Returns what is wrong with an object, by the schemas of Kubernetes or of its operator."""
    if (found["apiVersion"], found["kind"]) in operators.SPECS:
        return operators.errors_of(found)
    wrong = []
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(found, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            wrong.append(f"{version}: {found['kind']} {found['metadata']['name']}: {error.path}: {error.message}")
    return wrong
