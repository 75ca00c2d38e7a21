"""What axe-core finds wrong with how accessible a page is."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import Page

SERIOUS = ("serious", "critical")


@cache
def source() -> str:
    """The script that the package carries; its Python is not needed."""
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text()


def violations(page: Page) -> list[str]:
    """A line for each element that breaks a rule of serious impact or worse. The page's policy stays in force."""
    page.evaluate(source() + "\n;undefined")
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:200]}: {node['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"]
    ]
