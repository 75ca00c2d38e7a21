"""The page's files: which there are, their digest, what the start needs, and to whom they go compressed."""

from __future__ import annotations

import gzip
import re
from importlib import resources

import pytest

from raftsched.ui.files import SHELL, Files, load, started_with, takes_gzip

PAGES = {"index.html": b"{{assets}} {{preloads}}", "locked.html": b""}


def test_the_package_has_its_files() -> None:
    found = load()
    for path in ("app.js", "core/vdom.js", "style/tokens.css"):
        assert found.get(path) is not None
        assert (resources.files("raftsched.ui") / "static" / path).is_file()
    assert found.get(SHELL) is None  # it has addresses of its own
    assert gzip.decompress(found.shell.packed) == found.shell.body


def test_the_digest_is_of_all_files() -> None:
    one = {**PAGES, "app.js": b"1", "a.css": b"2"}
    digests = {
        Files(one).digest,
        Files({**one, "app.js": b"2"}).digest,
        Files({**one, "index.html": b"{{assets}}"}).digest,
        Files({**one, "b.css": b""}).digest,
        Files({**PAGES, "app.js": b"1", "a.c.css": b"2"}).digest,
    }
    assert len(digests) == 5
    assert Files(dict(reversed(one.items()))).digest == Files(one).digest


def test_what_is_compressed_is_the_same_each_time() -> None:
    first, second = Files({**PAGES, "app.js": b"1" * 999}), Files({**PAGES, "app.js": b"1" * 999})
    assert first.get("app.js") == second.get("app.js")


def test_the_shell_names_all_that_the_start_imports() -> None:
    sources = {
        "app.js": b'import "./core/a.js";\nimport * as keys from "./core/keys.js";\nconst f = () => import("./l.js");',
        "core/a.js": b'import {\n  one,\n  two,\n} from "../parts/p.js";\nexport { x } from "./b.js";\n',
        "core/b.js": b'import { a } from "./a.js"; // each other\n// import "./not.js";\nconst from = "./not.js";',
        "core/keys.js": b"",
        "core/not.js": b"",
        "parts/p.js": b'export const from = "../l.js";',
        "l.js": b"",
    }
    assert started_with(sources, "app.js") == ["app.js", "core/a.js", "core/keys.js", "parts/p.js", "core/b.js"]
    shell = Files({**PAGES, **sources}).shell.body.decode()
    assert re.findall(r'href="[^"]+/[0-9a-f]{20}/([^"]+)"', shell) == started_with(sources, "app.js")


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("gzip, deflate, br, zstd", True),
        ("br, deflate", False),
        ("*", True),
        ("*;q=0", False),
        ("*;q=0, gzip", True),
        ("gzip;q=0, *", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
        ("gzip;q=1", True),
        ("xgzip", False),
    ],
)
def test_who_takes_gzip(accepted: str, taken: bool) -> None:
    assert takes_gzip(accepted) is taken
