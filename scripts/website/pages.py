"""The pages of the site: those of docs/, others of the source, which are written for a code host, and what is made.

The same file is read in both places, so that nothing is written twice: links between files become links between
pages. A file that is linked to and is no page (`deploy/prometheus/alerts.yml`) gets
one that shows it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.website.markdown import change_links, headings, link_targets

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {  # file -> page
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "jepsen-like/README.md": "project/jepsen-like.md",
}
FOLDERS = ("deploy", "examples")  # whose READMEs, at any depth, are pages
DESIGNS = "raftsched/*/DESIGN.md"  # the decisions of each room, at its door
SHOWN_MAX = 200_000  # bytes of a file that is shown
_LANGUAGES = {
    ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".py": "python", ".sh": "sh", ".toml": "toml", ".go": "go",
    ".js": "js", ".service": "ini", ".conf": "ini",
}  # fmt: skip


@dataclass(frozen=True)
class Page:
    """A page of the site."""

    path: str  # within the site's sources, as MkDocs knows it
    source: str  # the file of the source whose links it has; "": it has none
    text: str
    made: bool = True  # it is not in docs/
    file: bool = False  # it shows a file or a folder, and is in no navigation
    folder: bool = False  # `source` is one

    @property
    def base(self) -> str:
        """The folder from which its links lead."""
        return self.source if self.folder else posixpath.dirname(self.source)

    @property
    def title(self) -> str:
        return next((text for level, text in headings(self.text) if level == 1), self.path)


@dataclass
class Site:
    """All pages, by their paths, and which of them a file of the source is."""

    pages: dict[str, Page]
    places: dict[str, str] = field(default_factory=dict)  # file -> its page

    def add(self, page: Page) -> None:
        self.pages[page.path] = page
        if page.source:
            self.places[page.source] = page.path

    def with_links(self, here: Page, text: str) -> str:
        """Returns `text` with links from page to page. Where the text of a link is the name of a file, as code hosts
        show it, it becomes the title of that page."""

        def changed(label: str, target: str) -> tuple[str, str]:
            name, _, anchor = target.partition("#")
            source = posixpath.normpath(posixpath.join(here.base, name)) if name else here.source
            place = self.places.get(source) if here.source else None
            if place is None:
                picture = name and source.startswith("docs/") and (ROOT / source).is_file()
                return label, _way(here, source.removeprefix("docs/")) if picture else target
            there = self.pages[place]
            if label.strip("`") in (source, name, posixpath.basename(name)) and name.endswith(".md"):
                label = there.title
            way = _way(here, there.path) if there is not here else ""
            return label, way + ("#" + anchor if anchor else "")

        return change_links(text, changed)


def _way(here: Page, path: str) -> str:
    return posixpath.relpath(path, posixpath.dirname(here.path) or ".")


def site(made: Mapping[str, str]) -> Site:
    """Returns all pages. `made`: those that are made from the code, path and text."""
    found = Site({})
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs").as_posix()
        found.add(Page(name, f"docs/{name}", path.read_text(), made=False))
    for source, path in OTHERS.items():
        found.add(Page(path, source, (ROOT / source).read_text()))
    for design in sorted(ROOT.glob(DESIGNS)):
        found.add(Page(f"design/{design.parent.name}.md", str(design.relative_to(ROOT)), design.read_text()))
    for folder in FOLDERS:
        for readme in sorted((ROOT / folder).rglob("README.md")):
            name = str(readme.parent.relative_to(ROOT))
            found.add(Page(f"{name}.md", f"{name}/README.md", readme.read_text()))
    found.add(Page("examples/index.md", "examples", _examples(), folder=True))
    for path, text in made.items():
        found.add(Page(path, "", text))
    _add_linked(found)
    return found


def _examples() -> str:
    lines = ["# Examples", "", "Programs that are complete, each in its folder of `examples/`.", ""]
    for readme in sorted((ROOT / "examples").glob("*/README.md")):
        text = readme.read_text()
        (title,) = re.findall(r"\A# (.+)$", text, re.MULTILINE)
        first = " ".join(text.split("\n\n")[1].split()).partition(". ")[0].rstrip(".:")
        lines.append(f"- [{title}]({readme.parent.name}/README.md): {first}.")
    return "\n".join(lines) + "\n"


def _add_linked(found: Site) -> None:
    """Adds a page for each file and folder that a page links to, and for what is in the folders."""
    waiting = list(found.pages.values())
    while waiting:
        page = waiting.pop()
        if not page.source or (page.file and not page.folder):
            continue
        for target in link_targets(page.text):
            source = posixpath.normpath(posixpath.join(page.base, target.partition("#")[0]))
            if source in found.places or source.startswith("..") or not (ROOT / source).exists():
                continue
            if f"{source}/README.md" in found.places:
                found.places[source] = found.places[f"{source}/README.md"]
            elif (shown := _shown(source)) is not None:
                found.add(shown)
                waiting.append(shown)


def _shown(source: str) -> Page | None:
    """Returns a page that shows a file, or lists a folder; None for a picture."""
    path = ROOT / source
    if path.is_dir():
        entries = "".join(f"- [{name}]({name})\n" for name in _entries(path))
        return Page(f"files/{source}/index.md", source, f"# {source}\n\n{entries}", file=True, folder=True)
    content = path.read_bytes()
    if b"\0" in content or len(content) > SHOWN_MAX:
        return None
    fence = f"```{_LANGUAGES.get(path.suffix, 'text')}\n{content.decode().rstrip()}\n```\n"
    return Page(f"files/{source}.md", source, f"# {source}\n\n{fence}", file=True)


def _entries(folder: Path) -> Iterator[str]:
    for entry in sorted(os.listdir(folder)):
        if not entry.startswith((".", "__pycache__")):
            yield entry
