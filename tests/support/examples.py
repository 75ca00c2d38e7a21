"""The examples of README and docs: found, made to fit a test's cluster, and sorted by how they are tried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = ("", "sh", "bash")
_FENCE = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TRIGGER = re.compile(r'`(\{"(?:at|in|every|cron|rrule|manual|after)":[^`]*\})`')
_NODE = re.compile(r"(?:localhost|127\.0\.0\.1|10\.0\.0\.[123]):740([123])")

SHOWN = (  # how blocks begin that show something instead of saying what to do
    "starting 3 nodes in",
    "node            decides",
    "id: ",  # server-sent events
    "POST /hook HTTP/1.1",  # what a webhook is sent
    '{"at": "20',  # a line of the log: tests/e2e/test_watch.py
    '{\n  "mcpServers"',  # settings of other programs: tests/unit/docs/test_mcp.py
    '{\n  "servers"',
    "image:",  # values of the chart: tests/unit/docs/test_chart.py
    "scrape_configs:",  # of Prometheus: tests/e2e/test_watch.py starts one
    "rule_files:",
    "receivers:",  # of a collector of OpenTelemetry
    '{"type":"output"',  # lines of output, as they are shipped: tests/unit/output
    "{service_name=",
    "<14>1 20",
    "caller's span",  # spans as a collector gets them: tests/e2e/test_tracing.py
    'job "billing/nightly-report"',  # a job with an instance and its attempts
)
ELSEWHERE = {  # lines that are not run here -> what tries them
    "./scripts/bench": "tests/e2e/test_bench.py",
    "./scripts/build": "tests/e2e/test_packages.py",
    "python3 -m venv /opt/raftsched": "tests/e2e/test_packages.py",
    "/opt/raftsched/bin/pip install": "tests/e2e/test_packages.py",
    "/opt/raftsched/bin/raftsched --version": "tests/e2e/test_packages.py",
    "useradd --system": "tests/unit/docs/test_unit_file.py",  # changes the machine
    "cp /opt/raftsched/share": "tests/unit/docs/test_unit_file.py",
    "systemctl daemon-reload": "tests/unit/docs/test_unit_file.py",
    "systemctl enable": "tests/unit/docs/test_unit_file.py",
    "systemctl status": "tests/unit/docs/test_unit_file.py",
    "pip install 'raftsched[otel]'": "tests/e2e/test_packages.py",
    "export RAFTSCHED_TOKEN=$(cat shop": "tests/integration/embedded/test_toolbox.py",
    "terraform ": "tests/integration/embedded/test_toolbox.py",
    "raftsched jobs list --all -o json | jq": "tests/integration/embedded/test_toolbox.py",
    "pip install 'raftsched[mcp]'": "tests/integration/mcp/test_stdio.py",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http": "tests/e2e/test_tracing.py",
    "pipx install": "tests/e2e/test_packages.py",  # as pip does, into an environment of its own
    "python -m raftsched.apscheduler export": "tests/unit/importers/test_apscheduler.py",  # of a store that there is
    "uv tool install": "tests/e2e/test_packages.py",
    "sha256sum -c SHA256SUMS": "tests/e2e/test_packages.py",
    "git checkout v": "tests/e2e/test_packages.py",
    "cmp dist/": "tests/e2e/test_packages.py",
    "raftsched dev   #": "tests/e2e/test_packages.py",
    "raftsched dev kill-leader": "tests/e2e/test_readme.py",
    "raftsched doctor --local /var": "tests/unit/cli/doctor/test_one_node.py",  # of a node that there is
    "raftsched node --id n1": "tests/e2e/test_startup.py",
    "raftsched worker --server": "tests/e2e/test_workers.py",
    "curl -s http://127.0.0.1:7401/v1/workers/gpu-1": "tests/e2e/test_workers_shown.py",
    "raftsched node --id n4": "tests/e2e/test_membership.py",
    "raftsched keys new --file /etc": "tests/e2e/test_three_machines.py",
    "raftsched certs init --dir /etc": "tests/e2e/test_three_machines.py",
    "for n in 1 2 3; do raftsched certs": "tests/e2e/test_three_machines.py",
    "raftsched node --id n2": "tests/e2e/test_three_machines.py",
    "celery -A shop beat": "tests/e2e/test_celery.py",
    "scp n1:": "tests/e2e/test_three_machines.py",
    "raftsched contexts set prod https://": "tests/e2e/test_three_machines.py",
    "raftsched cluster members add": "tests/e2e/test_membership.py",
    "raftsched cluster members remove": "tests/e2e/test_membership.py",
    "raftsched cluster members replace": "tests/e2e/test_membership.py",
    "raftsched --server https://10.0.0.1:7401 --ca-file": "tests/e2e/test_tls.py",  # the other examples have no TLS
    "raftsched contexts set secure https://": "tests/e2e/test_tls.py",
    "raftsched --context prod": "tests/e2e/test_tls.py",
    "curl --cacert": "tests/e2e/test_tls.py",
    "raftsched cluster restore": "tests/e2e/test_backup.py",
    "raftsched backup run": "tests/e2e/test_backup.py",
    "raftsched backup list": "tests/e2e/test_backup.py",
    "raftsched backup verify": "tests/e2e/test_backup.py",
    "raftsched backup show": "tests/e2e/test_backup.py",
    "raftsched backup restore": "tests/e2e/test_backup.py",
    "raftsched cluster transfer --to": "tests/e2e/test_operators.py",
    "rm -r /var/lib/raftsched": "tests/e2e/test_membership.py",
    "mv /var/lib/raftsched": "tests/e2e/test_lost_majority.py",
    "curl -sN": "tests/integration/api/runs/test_events.py",  # goes on without end
    "raftsched tokens bootstrap": "tests/e2e/test_tokens.py",  # the other examples have none
    "raftsched login": "tests/unit/cli/auth/test_login.py",  # wants an issuer
    "raftsched logout": "tests/unit/cli/auth/test_login.py",
    "raftsched audit export": "tests/integration/api/auth/test_audit_chain.py",  # to other machines, without end
    "raftsched audit verify /mnt": "tests/integration/api/auth/test_audit_chain.py",
    "printf 'half of it": "tests/integration/api/workers/test_output.py",  # wants a run
    'echo \'{"progress"': "tests/integration/runner/test_commands.py",  # a run's own lines
    'echo \'{"state"': "tests/integration/runner/test_commands.py",
    'echo \'{"outcome"': "tests/integration/runner/test_commands.py",
    "man raftsched-jobs": "tests/unit/cli/terminal/test_manual.py",  # wants man, and a home
    "raftsched jobs edit": "tests/unit/cli/jobs/test_files.py",  # wants somebody at a terminal
}
# pages of commands for other machines -> what tries them; their settings are tried as those of other pages
PAGES_ELSEWHERE = {
    "README.md": "tests/e2e/test_readme.py",
    **{
        f"docs/tutorials/{path.name}": "tests/e2e/test_tutorials.py"
        for path in (ROOT / "docs/tutorials").glob("*.md")
        if path.name != "index.md"
    },
    "docs/containers.md": "tests/unit/docs/test_containers.py",
    "docs/fastapi.md": "tests/e2e/test_fastapi.py",
    "docs/kubernetes.md": "tests/e2e/test_kubernetes.py",
    "docs/proxies.md": "tests/e2e/test_proxies.py",
    "docs/virtual-machines.md": "tests/e2e/test_virtual_machines.py",
}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    file: str = ""  # the name of the file that it is the content of, as the line above it says

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _FENCE.finditer(text):
            line = text.count("\n", 0, match.start(3)) + 1
            found.append(Block(str(page.relative_to(ROOT)), line, match[2], match[3], match[1] or ""))
    return found


def programs() -> list[Block]:
    """Returns the programs of docs/sdk.md, each of which has a client."""
    return [block for block in blocks() if (block.page, block.language) == ("docs/sdk.md", "python") and not block.file]


def put_files(directory: Path) -> None:
    """Writes the files whose content the pages show."""
    for block in blocks():
        if block.file:
            (directory / block.file).parent.mkdir(parents=True, exist_ok=True)
            (directory / block.file).write_text(block.text)


def inline_triggers() -> Iterator[tuple[str, dict[str, Any]]]:
    for page in PAGES:
        for match in _TRIGGER.finditer(page.read_text()):
            if "TIME" not in match[1]:  # stands for one
                yield str(page.relative_to(ROOT)), json.loads(match[1])


def commands(block: Block) -> list[str]:
    """The lines to run, those that go on together as one; comments stay, for a shell knows them."""
    lines: list[str] = []
    for line in block.text.split("\n"):
        if lines and (lines[-1].endswith("\\") or _open(lines[-1])):
            lines[-1] += "\n" + line
        elif line.strip():
            lines.append(line)
    return lines


def _open(text: str) -> bool:
    """Whether a single quote is not closed; apostrophes in comments do not count."""
    return re.sub(r"(?<=\s)# .*", "", text).count("'") % 2 == 1


def assigned(command: str) -> str | None:
    """Returns the variable that a line sets for those after it."""
    found = re.match(r"([A-Z]+)=\$\(.*\)$", command)
    return found[1] if found else None


def elsewhere(command: str) -> str | None:
    return next((where for start, where in ELSEWHERE.items() if command.startswith(start)), None)


def fitted(command: str, ports: list[int]) -> str:
    """With the addresses of the nodes that there are."""
    return _NODE.sub(lambda m: f"127.0.0.1:{ports[int(m[1]) - 1]}", command)


def jobs_of(block: Block) -> list[dict[str, Any]]:
    """The jobs of a JSON block: one, or a base with the fields that are shown; a line may be an alternative."""
    if block.text.lstrip().startswith("{"):
        return [json.loads(block.text)]
    try:
        return [_completed(json.loads("{" + block.text + "}"))]
    except ValueError:
        return [_completed(json.loads("{" + line + "}")) for line in block.text.splitlines()]


def _completed(fields: dict[str, Any]) -> dict[str, Any]:
    base = {"name": "x", "handler": {"shell": "true"}}
    return base | ({} if "triggers" in fields else {"trigger": {"every": "1h"}}) | fields
