"""The page's scripts and styles as text: nothing parses HTML, nothing comes from elsewhere, nothing is left over."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest

import raftsched

STATIC = Path(raftsched.__file__).parent / "ui" / "static"
SOURCES = {
    path.relative_to(STATIC).as_posix(): path.read_text() for path in STATIC.rglob("*.*") if path.suffix != ".svg"
}
SCRIPTS = [path for path in SOURCES if path.endswith(".js")]
STYLES = [path for path in SOURCES if path.endswith(".css")]
LINES_MAX = 450
# What makes elements or code of text, and what the policy forbids.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|setHTMLUnsafe"
    r"|\beval\(|new Function|javascript:|setAttribute\(\"style\"|console\.|debugger|localStorage\.setItem\(STORED"
)
ELSEWHERE = re.compile(r"""["'(](?:https?:)?//(?!www\.w3\.org/2000/svg|[a-z]+\.example/)[a-z]""")
IMPORT = re.compile(r'^\s*(?:import|export)\s+([^"]*?)\s*from\s+"([^"]+)"', re.MULTILINE)
BARE_IMPORT = re.compile(r'(?:^import\s+|\bimport\()"([^"]+)"', re.MULTILINE)
EXPORT = re.compile(r"^export\s+(?:async\s+)?(?:function\*?|class|const|let)\s+(\w+)", re.MULTILINE)
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b(?![^{]*\{)|\b(?:rgb|hsl|oklch)a?\(", re.IGNORECASE)


def names(clause: str) -> set[str]:
    """The names that an import takes: "{ a, b as c }"; not the default one, nor all of them."""
    inside = re.search(r"\{([^}]*)\}", clause)
    return {one.split(" as ")[0].strip() for one in inside[1].split(",") if one.strip()} if inside else set()


def imports(path: str) -> list[tuple[str, set[str], bool]]:
    """(module, names taken, whether all of it is)"""
    here = dirname(path)
    found = [(normpath(join(here, m)), names(c), "*" in c or "{" not in c) for c, m in IMPORT.findall(SOURCES[path])]
    return found + [(normpath(join(here, module)), set(), True) for module in BARE_IMPORT.findall(SOURCES[path])]


def exports(path: str) -> set[str]:
    listed = re.findall(r"^export\s*\{([^}]*)\}\s*(?:;|from)", SOURCES[path], re.MULTILINE)
    return set(EXPORT.findall(SOURCES[path])) | {
        one.split(" as ")[-1].strip() for text in listed for one in text.split(",") if one.strip()
    }


@pytest.mark.parametrize("path", SCRIPTS)
def test_no_script_makes_elements_or_code_of_text(path: str) -> None:
    found = [line.strip() for line in SOURCES[path].splitlines() if FORBIDDEN.search(line)]
    assert not found


@pytest.mark.parametrize("path", SOURCES)
def test_nothing_comes_from_elsewhere(path: str) -> None:
    assert not [line.strip() for line in SOURCES[path].splitlines() if ELSEWHERE.search(line)]


@pytest.mark.parametrize("path", SCRIPTS)
def test_what_is_imported_is_there(path: str) -> None:
    for module, taken, _ in imports(path):
        assert module in SOURCES, f"{path} imports {module}"
        assert taken <= exports(module), f"{path} takes {taken - exports(module)} of {module}"


def test_no_export_is_left_over() -> None:
    said = Counter(word for text in SOURCES.values() for word in re.findall(r"[\w$]+", text))
    unused = {f"{path}: {name}" for path in SCRIPTS for name in exports(path) if said[name] < 2}
    assert not unused


def test_no_module_is_left_over() -> None:
    reached = {"app.js", "theme.js"}
    todo = list(reached)
    for path in todo:
        for module, _, _ in imports(path):
            if module not in reached:
                reached.add(module)
                todo.append(module)
    html = "".join(text for path, text in SOURCES.items() if path.endswith(".html"))
    assert not {path for path in SCRIPTS if path not in reached and path not in html}


@pytest.mark.parametrize("path", SCRIPTS)
def test_a_script_begins_with_what_it_is_and_is_no_longer_than_can_be_read(path: str) -> None:
    lines = SOURCES[path].splitlines()
    assert lines[0].startswith(("/**", "//")), "a first line says what the module is for"
    assert len(lines) <= LINES_MAX


@pytest.mark.parametrize("path", [path for path in STYLES if path != "style/tokens.css"])
def test_colours_are_named_in_one_place(path: str) -> None:
    text = re.sub(r"/\*.*?\*/", "", SOURCES[path], flags=re.DOTALL)
    found = [line.strip() for line in text.splitlines() if COLOUR.search(line) and "backdrop" not in line]
    assert not found, "colours have names in style/tokens.css"


def test_styles_are_of_elements_that_there_are() -> None:
    """A class that no script and no shell names styles nothing."""
    others = "".join(text for path, text in SOURCES.items() if not path.endswith(".css"))
    said = set(re.findall(r"[\w-]+", others))
    unused = set()
    for path in STYLES:
        text = re.sub(r"/\*.*?\*/", "", SOURCES[path], flags=re.DOTALL)
        for name in re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", text):
            stem = name.split("-")[0]
            if name not in said and f"{stem}-$" not in others:
                unused.add(f"{path}: .{name}")
    assert not unused
