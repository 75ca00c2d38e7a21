"""Writes what deploy/helm/raftsched has from elsewhere:

- the versions in Chart.yaml, which are raftsched's
- the names of settings in values.schema.json, which are those of `raftsched node` and `raftsched worker`
- the table of values in README.md, which is what values.yaml says
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from raftsched.config.node import SETTINGS as NODE
from raftsched.config.worker import SETTINGS as WORKER
from raftsched.version import __version__

CHART = Path(__file__).resolve().parents[1] / "deploy" / "helm" / "raftsched"
# Settings that the chart says itself, and those of programs, which voters do not start.
OF_CHART = frozenset(
    (
        "id", "data", "http", "raft", "peers", "advertise_http", "advertise_raft", "cluster_key_file",
        "insecure_raft", "join", "tls_cert", "tls_key", "tls_ca", "http_hosts", "insecure_http", "open",
        "executors", "server", "name", "token_file",
    )
)  # fmt: skip
OF_PROGRAMS = frozenset(
    (
        "pythonpath", "handlers", "python_first", "python_runs_max", "python_memory_max", "exec_allow",
        "env_allow", "env_pass", "cwd_allow", "python_allow", "pids_max", "memory_max", "nice",
    )
)  # fmt: skip
OF_USERS = frozenset(("run_as", "jobs_as_node", "users_allowed", "allow_new_privileges"))  # a pod has one user
_BEGIN, _END = "<!-- made by scripts/make-chart -->\n", "<!-- end -->\n"
_KEY = re.compile(r"( *)(\w+):")


class NoDescription(Exception):
    pass


def semantic(version: str) -> str:
    """Returns the version as Helm wants it (SemVer 2)."""
    found = Version(version)
    parts = [*(found.pre or ()), *(("dev", found.dev) if found.dev is not None else ())]
    return found.base_version + (f"-{'.'.join(map(str, parts))}" if parts else "")


def with_versions(text: str) -> str:
    """Returns Chart.yaml with the versions of today."""
    text = re.sub(r"^version: .*$", f"version: {semantic(__version__)}", text, flags=re.MULTILINE)
    return re.sub(r"^appVersion: .*$", f"appVersion: {__version__}", text, flags=re.MULTILINE)


def with_settings(text: str) -> str:
    """Returns values.schema.json with the names of the settings that a release may say."""
    said = json.loads(text)
    voters = [name for name in NODE if name not in OF_CHART | OF_PROGRAMS | OF_USERS]
    workers = [name for name in WORKER if name not in (OF_CHART - {"executors"}) | OF_USERS]
    said["definitions"]["voterSettings"]["propertyNames"]["enum"] = sorted(voters)
    said["definitions"]["workerSettings"]["propertyNames"]["enum"] = sorted(workers)
    return json.dumps(said, indent=2) + "\n"


def described(text: str) -> Iterator[tuple[str, Any, str]]:
    """Yields path, default and description of each value. Raises NoDescription."""
    values = yaml.safe_load(text)
    path: list[tuple[int, str]] = []
    said: list[str] = []
    within = -1  # how far the key is indented whose description is that of all below it
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            said.append(line.strip("# "))
            continue
        if match := _KEY.match(line):
            indent = len(match[1])
            path = [one for one in path if one[0] < indent] + [(indent, match[2])]
            if indent <= within:
                within = -1
            if within < 0:
                value = values
                for _, key in path:
                    value = value[key]
                if said:
                    yield ".".join(key for _, key in path), value, " ".join(said)
                    within = indent
                elif not isinstance(value, dict) or not value:
                    raise NoDescription(".".join(key for _, key in path))
        said = []


def table(text: str) -> str:
    """Returns the rows of all values."""
    lines = ["| value | default | |", "|---|---|---|"]
    for path, default, words in described(text):
        lines.append(f"| `{path}` | {_shown(default)} | {words} |")
    return "\n".join([*lines, ""])


def _shown(default: Any) -> str:
    if default in ("", [], {}):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def with_table(text: str, values: str) -> str:
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return before + begin + table(values) + end + after


def main() -> None:
    values = (CHART / "values.yaml").read_text("utf-8")
    for name, written in (
        ("Chart.yaml", with_versions),
        ("values.schema.json", with_settings),
        ("README.md", lambda text: with_table(text, values)),
    ):
        path = CHART / name
        path.write_text(written(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
