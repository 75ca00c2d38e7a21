"""Asks programs of others what they think of /openapi.json: Spectral, whose warnings count, too; openapi-typescript,
and the compiler of TypeScript whether jobs can be written with the types; oapi-codegen, and the compiler of Go.

They are got from npm and as Go modules, at the versions that are named here. What cannot be had is said to be SKIPPED,
with the reason, and is no failure: the tests of raftsched need no network, and hold the description to the same rules
(tests/support/client_rules.py).

Exit code 0: nobody complained. 1: somebody did.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from raftsched.api.openapi.description import describe
from raftsched.api.routes import ROUTES
from raftsched.version import __version__

NPM = {"@stoplight/spectral-cli": "6.16.3", "openapi-typescript": "7.13.0", "typescript": "5.9.3"}
OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
GO_RUNTIME = "github.com/oapi-codegen/runtime@v1.9.0"
LIMIT_S = 900
_NEEDED = "--default-non-nullable=false"  # else what has a default would have to be written
_JOBS = """import type { components } from "./api";
type Schemas = components["schemas"];
export const jobs: Schemas["JobIn"][] = [
  { name: "hourly", trigger: { every: "1h" }, handler: { exec: ["true"] } },
  { trigger: { cron: "0 5 * * *", timezone: "UTC" }, handler: { shell: "true", env: { P: { $secret: "p" } } } },
  { trigger: { after: { job: "default/hourly" } }, handler: { http: { url: "http://h/" } }, overlap: "queue_one" },
];
export const change: Schemas["JobPatch"] = { priority: 3, labels: { team: null } };
// @ts-expect-error: there is no such policy
export const wrong: Schemas["JobIn"] = { trigger: { every: "1h" }, handler: { exec: ["true"] }, overlap: "sometimes" };
"""
_TYPESCRIPT = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"]


class Missing(Exception):
    """What cannot be had here, and why."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/openapi-clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="Make the clients there, and leave them.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="openapi-clients-") as made:
        folder: Path = given.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "openapi.json").write_text(json.dumps(describe(ROUTES, __version__), indent=1))
        return max([*_steps("npm", _npm, folder), *_steps("go", _go, folder)])


def _steps(tool: str, steps: Callable[[Path], Iterator[tuple[str, str]]], folder: Path) -> Iterator[int]:
    """Yields an exit code for each step: its name and what was complained about."""
    try:
        if shutil.which(tool) is None:
            raise Missing(f"there is no {tool}")
        for name, complaint in steps(folder):
            print(f"{name}: {complaint or 'no complaint'}", flush=True)
            yield int(bool(complaint))
    except Missing as why:
        print(f"SKIPPED, not asked: {tool}: {why}", flush=True)
        yield 0


def _npm(folder: Path) -> Iterator[tuple[str, str]]:
    packages = [f"{name}@{version}" for name, version in NPM.items()]
    (folder / "package.json").write_text("{}")
    _get(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", *packages], folder)
    tools = folder / "node_modules" / ".bin"
    (folder / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    yield "Spectral", _run([tools / "spectral", "lint", "openapi.json", "--fail-severity", "warn"], folder)
    made = _run([tools / "openapi-typescript", "openapi.json", _NEEDED, "-o", "api.d.ts"], folder)
    yield "openapi-typescript", made
    if not made:
        (folder / "jobs.ts").write_text(_JOBS)
        yield "tsc", _run([tools / "tsc", *_TYPESCRIPT, "jobs.ts"], folder)


def _go(folder: Path) -> Iterator[tuple[str, str]]:
    (folder / "go.mod").write_text("module example.com/raftsched\n\ngo 1.24\n")
    _get(["go", "run", OAPI_CODEGEN, "-version"], folder)
    made = _run(
        ["go", "run", OAPI_CODEGEN, "-generate", "types,client", "-package", "api", "-o", "api.go", "openapi.json"],
        folder,
    )
    yield "oapi-codegen", made
    if not made:
        _get(["go", "get", GO_RUNTIME], folder)
        yield "go build", _run(["go", "build", "./..."], folder)


def _get(command: list[str | Path], folder: Path) -> None:
    said = _run(command, folder)
    if said:
        raise Missing(f"`{' '.join(map(str, command[:3]))}` failed: {said.splitlines()[-1]}")


def _run(command: list[str | Path], folder: Path) -> str:
    """Returns what a program said that failed, or that warned on the way; empty: neither."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {LIMIT_S} s"
    said = f"{done.stdout}{done.stderr}".strip()
    if done.returncode:
        return said or f"exit code {done.returncode}"
    return said if "warning" in said.lower() else ""


if __name__ == "__main__":
    sys.exit(main())
