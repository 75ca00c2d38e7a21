"""The page's files: which are sent, their digest, their size, and in which coding."""

from __future__ import annotations

import gzip
from importlib import resources

import brotli
import pytest

from raftsched.ui.files import SHELL, STYLE, Files, codings_of, load

COMPRESSED_MAX = 100_000  # bytes of all files together, as browsers get them by https and on loopback
SHELLS = {"index.html": b"{{assets}}", "locked.html": b""}


def test_the_package_has_its_files() -> None:
    found = load()
    for path in ("app.js", "theme.js", "icon.svg", STYLE):
        assert found.get(path) is not None
    for path in ("index.html", "app.js", "core/vdom.js", "style/tokens.css"):
        assert (resources.files("raftsched.ui") / "static" / path).is_file()
    assert found.get(SHELL) is None  # it has addresses of its own


def test_all_files_together_are_small() -> None:
    sent = sum(len(file.encoded("br")) for file in load().all())
    assert sent <= COMPRESSED_MAX, sent


def test_style_sheets_are_one_that_begins_with_the_names_of_the_colours() -> None:
    sources = {f"style/{name}.css": name.encode() + b"\n" for name in ("a", "base", "components", "tokens")}
    style = Files({**SHELLS, "app.js": b"", **sources}).get(STYLE)
    assert style is not None
    assert style.body.split() == [b"tokens", b"base", b"components", b"a"]


def test_the_digest_is_of_all_files() -> None:
    one = {**SHELLS, "app.js": b"1", "a.css": b"2"}
    digests = {
        Files(one).digest,
        Files({**one, "app.js": b"2"}).digest,
        Files({**one, "index.html": b""}).digest,
        Files({**one, "b.css": b""}).digest,
        Files({**SHELLS, "app.js": b"1", "a.c.css": b"2"}).digest,
    }
    assert len(digests) == 5
    assert Files(dict(reversed(one.items()))).digest == Files(one).digest


def test_what_is_compressed_is_the_same_each_time_and_what_it_was() -> None:
    first, second = (Files({**SHELLS, "app.js": b"1" * 999}).get("app.js") for _ in range(2))
    assert first is not None
    assert second is not None
    for coding, back in (("br", brotli.decompress), ("gzip", gzip.decompress), ("", bytes)):
        assert first.encoded(coding) == second.encoded(coding)
        assert back(first.encoded(coding)) == first.body
    assert len({first.etag(coding) for coding in ("br", "gzip", "")}) == 3
    assert first.etag("br") == second.etag("br") != first.etag("br", "variant")


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", ""),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, br;q=0", "gzip"),
        ("deflate, zstd", ""),
        ("*", "br"),
        ("*;q=0", ""),
        ("*;q=0, gzip", "gzip"),
        ("br;q=0, *", "gzip"),
        ("gzip; q=0.000", ""),
        ("gzip;q=0.001", "gzip"),
        ("gzip;q=1", "gzip"),
        ("xgzip", ""),
    ],
)
def test_which_coding_is_chosen(accepted: str, coding: str) -> None:
    found = codings_of(accepted)
    assert (found[0], found[-1]) == (coding, "")
