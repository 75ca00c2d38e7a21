"""Reads and writes YAML by the core schema of YAML 1.2 (section 10.3.2): null, true, false, numbers, and otherwise
text."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator
from typing import Any, ClassVar

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TAGS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+0123456789.")),
    ("merge", r"<<", ["<"]),
)


class YamlProblem(ValueError):
    """Says what is wrong, where, and what would be right."""


class _Loader(_Base):  # type: ignore[misc]
    """Resolves as YAML 1.2 does."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise YamlProblem(f"line {key.start_mark.line + 1}: a key must be plain text")
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise YamlProblem(f"line {key.start_mark.line + 1}: the key {key.value!r} is given twice in one object")
            seen.add(key.value)
            if key.tag != "tag:yaml.org,2002:merge":
                key.tag = "tag:yaml.org,2002:str"  # the keys of JSON are text: 1: and true: mean "1" and "true"
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found

    def integer(self, node: yaml.ScalarNode) -> int:
        text = node.value
        if len(text) > 20:
            raise YamlProblem(f"line {node.start_mark.line + 1}: the number {text[:30]} is too large")
        return int(text, 8 if text.startswith("0o") else 16 if text.startswith("0x") else 10)

    def number(self, node: yaml.ScalarNode) -> float:
        found = float(node.value)
        if not math.isfinite(found):
            raise YamlProblem(f"line {node.start_mark.line + 1}: the number {node.value[:30]} is too large")
        return found


def _resolve_in(cls: Any, tags: Any) -> None:
    for tag, pattern, first in tags:
        cls.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), first)


_resolve_in(_Loader, _TAGS)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)


class _Dumper(_BaseDumper):  # type: ignore[misc]
    """Writes each value at its place, without anchors, and quotes what other readers might take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    block = "\n" in text and not any(line.endswith((" ", "\t")) for line in text.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else None)


_Dumper.add_representer(str, _text)
_resolve_in(_Dumper, _TAGS)  # beside the rules of 1.1: what either takes for something else is quoted


def read_yaml(text: str, *, values_max: int, depth_max: int) -> Iterator[tuple[int, Any]]:
    """(line, value) of each document; values are what JSON has. Raises YamlProblem.

    `values_max`: of one document with its aliases written out, so that a small file cannot become a huge one.
    """
    loader = _Loader(text)
    try:
        _check_depth(text, depth_max)
        while loader.check_node():
            node = loader.get_node()
            _measure(node, values_max, depth_max)
            yield node.start_mark.line + 1, loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise YamlProblem(f"{where}{error.problem or error.context}{_hint(text, mark)}") from None
    except yaml.YAMLError as error:
        raise YamlProblem(str(error).splitlines()[0]) from None
    except RecursionError:
        raise YamlProblem("it nests too deeply") from None
    finally:
        loader.dispose()


def yaml_text(value: Any) -> str:
    return str(
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=110)
    )


def _hint(text: str, mark: Any) -> str:
    """The mistake that every crontab leads to: `cron: * * * * *` starts an alias in YAML."""
    lines = text.split("\n")
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    return '; write the expression in quotes: cron: "* * * * *"' if re.search(r":\s*[*@]", line) else ""


def _check_depth(text: str, depth_max: int) -> None:
    """Checks the depth on the events, before nodes are made of them: the fast loader does that by recursion in C, which
    ends the process when it goes too deep."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > depth_max:
            where = "" if event.start_mark is None else f"line {event.start_mark.line + 1}: "
            raise YamlProblem(f"{where}more than {depth_max} levels")


def _measure(node: yaml.Node, values_max: int, depth_max: int) -> None:
    left = values_max
    stack = [(node, 1)]
    while stack:
        here, depth = stack.pop()
        left -= 1
        if left < 0 or depth > depth_max:
            what = f"more than {values_max:,} values" if left < 0 else f"more than {depth_max} levels"
            raise YamlProblem(f"line {here.start_mark.line + 1}: {what}, aliases written out")
        if isinstance(here, yaml.MappingNode):
            stack += [(part, depth + 1) for pair in here.value for part in pair]
        elif isinstance(here, yaml.SequenceNode):
            stack += [(part, depth + 1) for part in here.value]
