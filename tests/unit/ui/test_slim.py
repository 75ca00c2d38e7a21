"""Comments and indentation are not sent, and nothing else is changed."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from raftsched.ui.slim import slim

STATIC = Path(str(resources.files("raftsched.ui") / "static"))
SOURCES = sorted(path for path in STATIC.rglob("*") if path.suffix in (".js", ".css"))


def test_comment_lines_and_indentation_go_and_lines_keep_their_numbers() -> None:
    source = b"/** Said.\n *  twice\n */\nconst a = 1; // stays\n  // goes\n  if (a) {\n    b(); /* stays */\n  }\n"
    source += b"/* c */ d();\n"
    assert slim(source) == b"\n\n\nconst a = 1; // stays\n\nif (a) {\nb(); /* stays */\n}\nd();\n"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_no_text_has_more_than_one_line(path: Path) -> None:
    """Its indentation would be lost."""
    for number, line in enumerate(path.read_text().split("\n"), 1):
        assert line.replace('"`"', "").count("`") % 2 == 0, f"{path.name}:{number}: a template of more than one line"
        assert not line.endswith("\\"), f"{path.name}:{number}: a string that goes on in the next line"
