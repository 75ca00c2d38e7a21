"""docs/mcp.md names the tools of `raftsched mcp` with what they may do, and settings that start the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner

from raftsched.cli.main import cli
from raftsched.cli.mcp.bounded import ANSWER_MAX
from raftsched.cli.mcp.reads import OUTPUT_MAX
from raftsched.cli.mcp.serving import ALL, CALLS_MAX, TIMEOUT_S, TOOL_TIMEOUT_S, WAITING_MAX
from raftsched.cli.mcp.tools import Tool

PAGE = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text()


def row(tool: Tool) -> str:
    asks = ", ".join(f"`{one.method} {one.path}`" for one in tool.operations)
    changes = "destroys" if tool.destroys else "yes" if tool.writes else ""
    return f"| `{tool.name}` | {asks} | {tool.role} | {changes} |".replace("|  |", "| |")


def test_the_table_names_each_tool_with_what_it_asks_for() -> None:
    table = [line for line in PAGE.splitlines() if re.match(r"\| `\w+` \|", line)]
    wanted = [row(tool) for tool in ALL.values()]
    assert table == wanted, "the table of docs/mcp.md should be:\n" + "\n".join(wanted)


def test_what_only_looks_asks_for_nothing_that_changes() -> None:
    for tool in ALL.values():
        assert tool.writes or {one.method for one in tool.operations} == {"GET"}, tool.name


def test_its_figures() -> None:
    words = {4: "Four", 32: "32", 20: "20 seconds", 60: "a minute"}
    for figure in (CALLS_MAX, WAITING_MAX, int(TIMEOUT_S), int(TOOL_TIMEOUT_S)):
        assert words[figure] in PAGE
    assert f"{ANSWER_MAX // 1024} KiB" in PAGE
    assert f"{OUTPUT_MAX // 1024} KiB" in PAGE


def test_settings_of_programs_start_the_command(tmp_path: Path) -> None:
    token = tmp_path / "assistant.token"
    token.write_text("rs_" + "a" * 43)
    contexts = tmp_path / "raftsched" / "contexts.toml"
    contexts.parent.mkdir()
    contexts.write_text('[contexts.prod]\nserver = "http://127.0.0.1:1"\n')
    found = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]
    assert [next(iter(one)) for one in found] == ["mcpServers", "servers"]
    for one in found:
        (servers,) = one.values()
        settings = servers["raftsched"]
        assert settings["command"] == "raftsched"
        args = [text.replace("/home/ana", str(tmp_path)) for text in settings["args"]]
        done = CliRunner().invoke(cli, [*args, "--help"], env={"XDG_CONFIG_HOME": str(tmp_path)})
        assert (done.exit_code, "--allow-writes" in done.output) == (0, True), done.output
