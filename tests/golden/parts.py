"""What commands are made of: each struct with its fields, each enumeration with its members.

`python -m tests.golden.parts VERSION` keeps that of a released version, whose commit has to be checked out.
"""

from __future__ import annotations

import json
import sys
from enum import Enum

import msgspec
from msgspec import inspect

from raftsched.core import commands as c
from raftsched.core.levels import SINCE
from tests.golden.goldenfile import HERE
from tests.golden.releases import RELEASES

Parts = dict[str, list[str]]
# What a kept file calls otherwise than the code of today. Logs hold numbers, and fields in their order, and no names.
RENAMED = {"BringNear": "PromoteDue", "EndedSaying": "EndedWithReport", "Said": "SelfReport"}


def parts() -> tuple[Parts, dict[str, type]]:
    """Returns the names of fields or members by the name of the struct or enumeration, and the types of these names."""
    found: dict[str, type] = {}
    for kind, _ in c.COMMANDS.values():
        _collect(inspect.type_info(kind), found)
    return {name: _names(kind) for name, kind in sorted(found.items())}, found


def _names(kind: type) -> list[str]:
    if issubclass(kind, Enum):
        return [member.name for member in kind]
    return [field.name for field in msgspec.structs.fields(kind)]


def _collect(info: inspect.Type, found: dict[str, type]) -> None:
    if isinstance(info, inspect.StructType | inspect.EnumType):
        if found.get(info.cls.__name__) is info.cls:
            return
        assert info.cls.__name__ not in found, f"two are called {info.cls.__name__}"
        found[info.cls.__name__] = info.cls
    if isinstance(info, inspect.StructType):
        for field in info.fields:
            _collect(field.type, found)
    elif isinstance(info, inspect.UnionType):
        for one in info.types:
            _collect(one, found)
    elif isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.FrozenSetType):
        _collect(info.item_type, found)
    elif isinstance(info, inspect.TupleType):
        for one in info.item_types:
            _collect(one, found)
    elif isinstance(info, inspect.DictType):
        _collect(info.key_type, found)
        _collect(info.value_type, found)


def kept_parts(version: str) -> tuple[Parts, dict[str, int]]:
    """Returns the parts of a released version and the levels of its commands, under the names of today."""
    kept = json.loads((HERE / f"parts-{version}.json").read_text())
    known, levels = (
        {RENAMED.get(name, name): value for name, value in kept[key].items()} for key in ("parts", "levels")
    )
    return known, levels


def main() -> int:
    (release,) = (one for one in RELEASES if one.version == sys.argv[1])
    file = HERE / f"parts-{release.version}.json"
    if file.exists():
        print(f"{file} is there; such files are never made anew", file=sys.stderr)
        return 1
    names, _ = parts()
    levels = {kind.__name__: level for kind, level in SINCE.items()}
    lines = (f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in names.items())
    file.write_text(f'{{"levels": {json.dumps(levels)},\n "parts": {{\n' + ",\n".join(lines) + "\n}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
