"""Writes what is made from the rows of the settings of the cluster (raftsched/cluster_settings.py):

- raftsched/ui/static/pages/setting-groups.js: the groups in which the page shows them
- the table in docs/settings.md
"""

from __future__ import annotations

import json
from pathlib import Path

from raftsched.cluster_settings import GROUPS, SETTINGS, Settings
from raftsched.quantities import public_name, public_value

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "raftsched" / "ui" / "static" / "pages" / "setting-groups.js"
DOCS = ROOT / "docs" / "settings.md"
_BEGIN, _END = "<!-- made by scripts/make-settings -->\n", "<!-- end -->\n"
_HEAD = "/** The settings that stand together on the page. Made by scripts/make-settings; not edited by hand. */\n\n"


def render_page() -> str:
    """Returns the module with the groups: [title, [name, ...]]."""
    lines = []
    for group in GROUPS:
        lines += ["  [", f"    {json.dumps(group)},", "    ["]
        lines += [f'      "{public_name(field)}",' for field, row in SETTINGS.items() if row.group == group]
        lines += ["    ],", "  ],"]
    return "\n".join([f"{_HEAD}export const SETTING_GROUPS = [", *lines, "];", ""])


def render_docs() -> str:
    """Returns the section of docs/settings.md between its two marks."""
    lines = ["| setting | default | from, to | |", "|---|---|---|---|"]
    for field, row in SETTINGS.items():
        default, least, most = (
            public_value(field, value) for value in (getattr(Settings(), field), row.least, row.most)
        )
        lines.append(f"| `{public_name(field)}` | {default} | {least}, {most} | {row.text} |")
    return "\n".join([*lines, ""])


def with_docs(text: str) -> str:
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return before + begin + render_docs() + end + after


def main() -> None:
    PAGE.write_text(render_page(), "utf-8")
    DOCS.write_text(with_docs(DOCS.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
