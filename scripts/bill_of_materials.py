"""The bill of materials of a wheel, as CycloneDX 1.6 has it: everything that an installation brings along.

Versions and hashes are those of requirements.lock, with which the tests ran; an installation may take newer ones,
within the bounds of the wheel's own metadata. Licences and dependencies are what each package says of itself.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYTHONS = ("3.11", "3.12", "3.13", "3.14")


class NotLocked(Exception):
    """The bill cannot be made: requirements.lock, or what is installed here, does not belong to the commit."""


@dataclass
class Package:
    """A package of the lock, and what of it is known here."""

    name: str
    version: str
    hashes: list[str] = field(default_factory=list)  # SHA-256, of each file that an index has of this version
    optional: bool = True


def locked(text: str) -> dict[str, Package]:
    """Returns the packages of a requirements file with hashes, by their canonical names."""
    found: dict[str, Package] = {}
    package = Package("", "")
    for line in text.splitlines():
        if pinned := re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line):
            package = found[canonicalize_name(pinned[1])] = Package(pinned[1], pinned[2])
        elif hashed := re.match(r"\s+--hash=sha256:([0-9a-f]{64})", line):
            package.hashes.append(hashed[1])
    return found


def applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """True where an installation on Linux, with one of PYTHONS, takes it along."""
    return requirement.marker is None or any(
        requirement.marker.evaluate(
            {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux", "extra": extra}
        )
        for python in PYTHONS
        for extra in ("", *extras)
    )


def needed(requirements: Iterable[str], of_package: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yields (who needs it, package) for everything that follows from these requirements; "" is raftsched itself."""
    waiting = [("", Requirement(text), ()) for text in requirements]
    seen: set[tuple[str, str, tuple[str, ...]]] = set()
    while waiting:
        by, requirement, extras = waiting.pop()
        if not applies(requirement, extras):
            continue
        name, asked = canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
        if (by, name, asked) in seen:
            continue
        seen.add((by, name, asked))
        yield by, name
        if name not in of_package:
            raise NotLocked(f"requirements.lock has no {name}, which {by or 'raftsched'} needs: make it anew")
        waiting += [(name, Requirement(text), asked) for text in of_package[name]]


def licences(about: metadata.PackageMetadata) -> str | None:
    """Returns the licence that a package states, best as an SPDX expression; None: it states none."""
    stated: Any = about
    if expression := stated.get("License-Expression"):
        return str(expression)
    classified = [
        text.rpartition(" :: ")[2] for text in stated.get_all("Classifier") or () if text.startswith("License :: ")
    ]
    short = str(stated.get("License") or "").strip()
    return short if short and "\n" not in short else " AND ".join(classified) or None


def of(source: Path, wheel: Path, epoch: int) -> str:
    """Returns the bill of a wheel that was built from this directory, as JSON. Raises NotLocked."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = locked((source / "requirements.lock").read_text(encoding="utf-8"))
    installed = {canonicalize_name(found.metadata["Name"]): found for found in metadata.distributions()}
    of_package = {name: list(installed[name].requires or ()) for name in packages if name in installed}
    always = set(needed(project["dependencies"], of_package))
    extra = [text for texts in project["optional-dependencies"].values() for text in texts]
    edges = always | set(needed(extra, of_package))
    for _, name in always:
        packages[name].optional = False

    version = wheel.name.split("-")[1]
    root = Component(
        name=project["name"],
        version=version,
        type=ComponentType.APPLICATION,
        description=project["description"],
        licenses=[LicenseFactory().make_from_string(project["license"])],
        purl=PackageURL("pypi", name=project["name"], version=version),
        bom_ref=f"{project['name']}=={version}",
        hashes=[_sha256(hashlib.sha256(wheel.read_bytes()).hexdigest())],
    )
    bom = Bom()
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    components = {"": root}
    for name in sorted({name for _, name in edges}):
        if installed[name].version != packages[name].version:
            raise NotLocked(
                f"{name} is {installed[name].version} here and {packages[name].version} in requirements.lock of the"
                " commit: build it in a checkout of that commit"
            )
        components[name] = _component(packages[name], licences(installed[name].metadata))
        bom.components.add(components[name])
    for name, component in components.items():
        bom.register_dependency(component, [components[needs] for by, needs in sorted(edges) if by == name])
    bom.serial_number = uuid5(NAMESPACE_URL, f"{root.purl}#{wheel.name}-{next(iter(root.hashes)).content}")
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(package: Package, licence: str | None) -> Component:
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.OPTIONAL if package.optional else ComponentScope.REQUIRED,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        purl=PackageURL("pypi", name=package.name, version=package.version),
        bom_ref=f"{package.name}=={package.version}",
        hashes=[_sha256(content) for content in package.hashes],
    )


def _sha256(content: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=content)
