"""The files of the page as they are sent, under one digest of all of them.

They are fewer than those of `static/`: modules are one script (`linking.py`), style sheets one, and neither has
comments (`slim.py`) or long names (`names.py`). An address has the digest in it, so that what is kept under it never
changes, and no page mixes two versions. The shell, `index.html`, is the one file that is asked for anew each time; it
says `{{assets}}` where that address belongs.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

import brotli

from raftsched.ui.linking import APP, link

ASSETS = "/ui/assets"
SHELL = "index.html"
LOCKED = "locked.html"
STYLE = "style.css"
_FIRST = ("style/tokens.css", "style/base.css", "style/components.css")  # the others are about one page or part each
_CLASSIC = ("theme.js",)  # scripts that are no modules
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "webp": "image/webp",
}
# The best first. Browsers take br by https and on loopback only: proxies on the way have spoilt it.
_CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "br": lambda body: brotli.compress(body, quality=11),
    "gzip": lambda body: gzip.compress(body, 9, mtime=0),
    "": lambda body: body,
}
CODINGS = tuple(_CODINGS)


class File:
    """One file. `etag` is of its content as it is; each coding of it has another one."""

    def __init__(self, path: str, body: bytes) -> None:
        self.body = body
        self.media_type = _TYPES[path.rpartition(".")[2]]
        self._digest = sha256(body).hexdigest()[:20]
        self._encoded = {"": body}

    def etag(self, coding: str, variant: str = "") -> str:
        """Returns the strong ETag of a coding of it. `variant`: of headers that belong to it."""
        return '"' + "-".join(filter(None, (self._digest, coding, variant))) + '"'

    def is_encoded(self, coding: str) -> bool:
        """Returns whether `encoded` has nothing left to do."""
        return coding in self._encoded

    def encoded(self, coding: str) -> bytes:
        """Returns its content in a coding. The first call compresses it, which takes up to half a second for br."""
        if coding not in self._encoded:
            self._encoded[coding] = _CODINGS[coding](self.body)
        return self._encoded[coding]


class Files:
    """All files by their paths. `shell` stands for every address of the page."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        """`sources`: what is in `static/`, by paths below it. Raises ValueError when modules cannot be linked."""
        from raftsched.ui.names import shorter  # a node that shows no page needs none of it
        from raftsched.ui.slim import slim, tight, tight_style

        whole = sha256()
        for path, source in sorted(sources.items()):
            whole.update(f"{path}\0{len(source)}\0".encode() + source)
        self.digest = whole.hexdigest()[:20]
        self.assets = f"{ASSETS}/{self.digest}"
        self.shell, self.locked = (
            File(path, sources[path].replace(b"{{assets}}", self.assets.encode())) for path in (SHELL, LOCKED)
        )
        modules = {
            path: source.decode() for path, source in sources.items() if path.endswith(".js") and path not in _CLASSIC
        }
        self._by_path = {APP: File(APP, tight(shorter(slim(link(modules)))).encode())}
        styles = sorted((path for path in sources if path.endswith(".css")), key=_place)
        self._by_path[STYLE] = File(
            STYLE, tight_style(slim("".join(sources[path].decode() for path in styles))).encode()
        )
        for path, source in sources.items():
            if path not in (*modules, *styles, SHELL, LOCKED):
                self._by_path[path] = File(path, slim(source.decode()).encode() if path in _CLASSIC else source)

    def get(self, path: str) -> File | None:
        """Returns the file of this path; None: there is none."""
        return self._by_path.get(path)

    def all(self) -> list[File]:
        """Returns all files: what a browser has loaded that visited every page."""
        return [self.shell, *self._by_path.values()]


@cache
def load() -> Files:
    """Returns the files of this package. The first call reads and links them, which takes some tens of ms."""
    return Files(dict(_read(resources.files("raftsched.ui") / "static", "")))


def _read(directory: Traversable, at: str) -> Iterator[tuple[str, bytes]]:
    for entry in directory.iterdir():
        path = at + entry.name
        if entry.is_dir():
            yield from _read(entry, f"{path}/")
        elif entry.name.rpartition(".")[2] in _TYPES:
            yield path, entry.read_bytes()


def _place(style: str) -> tuple[int, str]:
    return (_FIRST.index(style) if style in _FIRST else len(_FIRST), style)


def codings_of(accepted: str) -> list[str]:
    """Returns the codings that an Accept-Encoding allows (RFC 9110, section 12.5.3), the best first, and "", which is
    none, last."""
    allowed: dict[str, bool] = {}
    for item in accepted.lower().split(","):
        coding, _, parameter = item.partition(";")
        name, _, weight = parameter.partition("=")
        allowed[coding.strip()] = not (name.strip() == "q" and weight.strip().rstrip("0") in ("", "0.", "0"))
    others = allowed.get("*", False)
    return [coding for coding in _CODINGS if not coding or allowed.get(coding, others)]
