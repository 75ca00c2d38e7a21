"""The files of the page as they are sent: each as it is and compressed, under one digest of all of them.

An address has the digest in it, so that what is kept under it never changes, and a page never mixes two versions. The
shell, `index.html`, is the one file that is asked for anew each time. It says `{{assets}}` where that address belongs,
and `{{preloads}}` where the links to all modules belong that `app.js` needs to begin: a browser asks for them at once
then, not for each when the one before it has come.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath
from typing import NamedTuple

from raftsched.ui.slim import slim

ASSETS = "/ui/assets"
SHELL = "index.html"
LOCKED = "locked.html"
_START = "app.js"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
}
_IMPORT = re.compile(r"""^\s*(?:(?:import|export)\b[^;"'()]*?\bfrom\s*|import\s*)["']([^"']+)["']""", re.MULTILINE)


class File(NamedTuple):
    """`etag` is a strong one, of `body`; that of `packed` has `-gzip` behind it."""

    body: bytes
    packed: bytes
    media_type: str
    etag: str

    def encoded(self, accepted: str) -> tuple[bytes, str, str]:
        """Returns the content, its ETag and its Content-Encoding, or "". `accepted`: the header Accept-Encoding."""
        if takes_gzip(accepted):
            return self.packed, f'"{self.etag}-gzip"', "gzip"
        return self.body, f'"{self.etag}"', ""


class Files:
    """All files by their paths below `static`. `shell` stands for every address of the page."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        sources = {path: slim(one) if path.endswith((".js", ".css")) else one for path, one in sources.items()}
        whole = sha256()
        for path, source in sorted(sources.items()):
            whole.update(f"{path}\0{len(source)}\0".encode() + source)
        self.digest = whole.hexdigest()[:20]
        self.assets = f"{ASSETS}/{self.digest}"
        preload = "".join(
            f'<link rel="modulepreload" href="{self.assets}/{path}">' for path in started_with(sources, _START)
        )
        pages = {
            path: source.replace(b"{{assets}}", self.assets.encode()).replace(b"{{preloads}}", preload.encode())
            for path, source in sources.items()
            if path.endswith(".html")
        }
        self.shell = _file(SHELL, pages[SHELL])
        self.locked = _file(LOCKED, pages[LOCKED])
        self._by_path = {path: _file(path, source) for path, source in sources.items() if path not in pages}

    def get(self, path: str) -> File | None:
        """Returns the file of this path; None: there is none."""
        return self._by_path.get(path)

    def all(self) -> list[File]:
        """Returns all files: what a browser has loaded that visited every page."""
        return [self.shell, *self._by_path.values()]


@cache
def load() -> Files:
    """Returns the files of this package. The first call reads and compresses them, which takes some tens of ms."""
    return Files(dict(_read(resources.files("raftsched.ui") / "static", "")))


def _read(directory: Traversable, at: str) -> Iterator[tuple[str, bytes]]:
    for entry in directory.iterdir():
        path = at + entry.name
        if entry.is_dir():
            yield from _read(entry, f"{path}/")
        elif entry.name.rpartition(".")[2] in _TYPES:
            yield path, entry.read_bytes()


def _file(path: str, body: bytes) -> File:
    packed = gzip.compress(body, 9, mtime=0)
    return File(body, packed, _TYPES[path.rpartition(".")[2]], sha256(body).hexdigest()[:20])


def started_with(sources: Mapping[str, bytes], first: str) -> list[str]:
    """Returns the paths of a module and of all that it imports statically, directly or not."""
    found = [first]
    for path in found:
        for said in _IMPORT.findall(sources.get(path, b"").decode()):
            wanted = normpath(join(dirname(path), said))
            if wanted in sources and wanted not in found:
                found.append(wanted)
    return [path for path in found if path in sources]


def takes_gzip(accepted: str) -> bool:
    """Returns whether an Accept-Encoding allows gzip (RFC 9110, section 12.5.3)."""
    allowed = False
    for item in accepted.lower().split(","):
        coding, _, parameter = item.partition(";")
        if coding.strip() in ("gzip", "*"):
            name, _, weight = parameter.partition("=")
            allowed = not (name.strip() == "q" and weight.strip().rstrip("0") in ("", "0.", "0"))
            if coding.strip() == "gzip":
                return allowed
    return allowed
