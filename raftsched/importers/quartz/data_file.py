"""XML as job_scheduling_data_2_0.xsd has it, which Quartz' XMLSchedulingDataProcessorPlugin loads.

Read with expat alone, of which bandit warns (B407). A declaration of an entity is refused, so that a small file cannot
become a huge one, and nothing outside of the file is ever fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat  # nosec B407

import click

FILE_MAX = 64 << 20  # bytes
ELEMENTS_MAX = 1_000_000
DEPTH_MAX = 50
ROOT = "job-scheduling-data"
_OF_ROOT = ("version", "http://www.w3.org/2001/XMLSchema-instance schemaLocation")


@dataclass
class Element:
    """An element, by its name without namespace."""

    name: str
    line: int
    parts: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)  # their names
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[Element]:
        return (child for child in self.children if child.name == name)

    def first(self, name: str) -> Element | None:
        return next(self.all(name), None)

    def text(self, name: str = "") -> str:
        """The text of the first child of that name, or its own; empty where there is none."""
        found = self.first(name) if name else self
        return "" if found is None else "".join(found.parts).strip()


class _Refused(Exception):
    pass


class _Reader:
    def __init__(self) -> None:
        self.root: Element | None = None
        self._stack: list[Element] = []
        self._count = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity
        self.parser.SkippedEntityHandler = self._skipped

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > ELEMENTS_MAX or len(self._stack) >= DEPTH_MAX:
            raise _Refused(f"it has more than {ELEMENTS_MAX:,} elements, or {DEPTH_MAX} levels")
        element = Element(name.rpartition(" ")[2], self.parser.CurrentLineNumber)
        element.attributes = [one.rpartition(" ")[2] for one in attributes if one not in _OF_ROOT]
        if self._stack:
            self._stack[-1].children.append(element)
        else:
            self.root = element
        self._stack.append(element)

    def _end(self, name: str) -> None:
        self._stack.pop()

    def _text(self, text: str) -> None:
        if self._stack:
            self._stack[-1].parts.append(text)

    def _entity(self, name: str, *about: object) -> None:
        raise _Refused(f"it declares an entity, {name[:40]!r}; write what it stands for instead")

    def _skipped(self, name: str, parameter: bool) -> None:
        raise _Refused(f"it refers to an entity, {name[:40]!r}, that it does not have")


def read_xml(data: bytes, source: str) -> Element:
    """The root of a file. Raises a usage error that says what is wrong and where."""
    if len(data) > FILE_MAX:
        raise click.UsageError(f"{source} has {len(data):,} bytes; {FILE_MAX:,} is the limit for XML: split it")
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except _Refused as error:
        raise click.UsageError(f"{source}: line {reader.parser.CurrentLineNumber}: {error}") from None
    except expat.ExpatError as error:
        raise click.UsageError(f"{source} is not XML: line {error.lineno}: {expat.ErrorString(error.code)}") from None
    except (ValueError, LookupError) as error:  # an encoding that it names, and that is none
        raise click.UsageError(f"{source} is not XML: {error}") from None
    assert reader.root is not None
    if reader.root.name != ROOT:
        raise click.UsageError(f"{source} is not of Quartz: its root is {reader.root.name[:40]!r}, not {ROOT!r}")
    return reader.root
