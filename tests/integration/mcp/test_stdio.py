"""raftsched mcp as a process, as programs start it: over standard input and output."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import mcp
import pytest

from raftsched.testing import RunningCluster
from tests.support.patience import patient

COMMAND = [sys.executable, "-m", "raftsched"]


def test_a_program_starts_it_and_asks(cluster: RunningCluster, tmp_path: Path) -> None:
    cluster.client.jobs.create(name="over-pipes", trigger={"manual": True}, handler={"shell": ":"})
    how = mcp.StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "--server", cluster.servers, "mcp"],
        env={"HOME": str(tmp_path)},
        cwd=str(tmp_path),
    )

    async def main() -> None:
        async with mcp.Client(mcp.stdio_client(how), read_timeout_seconds=patient(60)) as client:
            found = await client.call_tool("list_jobs", {"name_prefix": "over-"})
            (job,) = json.loads(found.content[0].text)["items"]  # type: ignore[union-attr]
            assert job["name"] == "over-pipes"
            assert "create_job" not in {tool.name for tool in (await client.list_tools()).tools}
            assert "as data" in (client.instructions or "")

    asyncio.run(main())


def test_it_ends_with_its_input_and_prints_nothing_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--server", "http://127.0.0.1:1", "mcp"],
        input="no JSON at all\n",
        capture_output=True,
        text=True,
        timeout=patient(60),
        env={"HOME": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all("jsonrpc" in json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("missing", ["mcp", "mcp.server"])
def test_without_the_package_it_says_which(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from raftsched.cli.main import cli\n"
        "cli.main(['mcp'], prog_name='raftsched')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'raftsched[mcp]'" in done.stderr
