"""The bill of materials: what is locked, what follows from a requirement, and which licence is stated."""

from __future__ import annotations

from email.message import Message
from typing import Any

import pytest

from scripts.bill_of_materials import NotLocked, licences, locked, needed

HASH = "a" * 64
LOCK = f"""\
Aio_Http==3.14.5 ; python_version >= "3.11" \\
    --hash=sha256:{HASH} \\
    --hash=sha256:{HASH[:-1]}b
    # via raftsched (pyproject.toml)
idna==3.20 \\
    --hash=sha256:{HASH}
"""


def test_names_are_canonical_and_every_hash_is_kept() -> None:
    found = locked(LOCK)
    assert list(found) == ["aio-http", "idna"]
    assert found["aio-http"].version == "3.14.5"
    assert found["aio-http"].hashes == [HASH, f"{HASH[:-1]}b"]
    assert found["idna"].hashes == [HASH]


def test_what_only_other_pythons_and_systems_need_is_left_out() -> None:
    requires = {
        "a": ["b; python_version < '3.13'", "c; python_version < '3.11'", "d; sys_platform == 'win32'"],
        "b": [],
    }
    assert set(needed(["a>=1"], requires)) == {("", "a"), ("a", "b")}


def test_an_extra_brings_what_it_names_and_circles_end() -> None:
    requires = {"a": ["b; extra == 'x'"], "b": ["a[x]"]}
    assert set(needed(["a"], requires)) == {("", "a")}
    assert set(needed(["a[x]"], requires)) == {("", "a"), ("a", "b"), ("b", "a")}


def test_what_is_not_locked_is_said() -> None:
    with pytest.raises(NotLocked, match="no b, which a needs"):
        list(needed(["a"], {"a": ["b"]}))


@pytest.mark.parametrize(
    ("fields", "stated"),
    [
        ({"License-Expression": "MIT", "License": "other"}, "MIT"),
        ({"License": "BSD-3-Clause"}, "BSD-3-Clause"),
        (
            {"License": "MIT\n\nPermission is ...", "Classifier": "License :: OSI Approved :: MIT License"},
            "MIT License",
        ),
        ({}, None),
    ],
)
def test_the_licence_is_what_the_package_states(fields: dict[str, str], stated: str | None) -> None:
    about: Any = Message()
    for name, text in fields.items():
        about[name] = text
    assert licences(about) == stated
