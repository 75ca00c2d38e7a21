"""What axe-core finds wrong with how accessible a page is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SERIOUS = ("serious", "critical")
# The rules that look at colours; a theme changes nothing else.
OF_COLOURS = ("color-contrast", "link-in-text-block")


@cache
def source() -> str:
    """The script that the package carries; its Python is not needed."""
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text()


def violations(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Returns a line for each element that breaks one of these rules (default: all) of serious impact or worse. The
    page's policy stays in force."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(source() + "\n;undefined")
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:200]}: {node['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"]
    ]
