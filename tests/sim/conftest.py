"""The first seed is printed whatever comes of it."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in (*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])):
        for name, value in report.user_properties:
            if name == "simulator":
                terminalreporter.write_line(f"simulator: {value}")
