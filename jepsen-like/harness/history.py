"""Every call of every client, as JSON lines: what was asked, when, and what came of it.

An operation is two lines, `invoke` and one of `ok` (it was done), `fail` (it was not done) and `unknown` (nobody can
say); one without its second line is unknown too. Beside them stand notes: faults, leaders, what was read at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import TextIOBase
from pathlib import Path
from typing import Any

from harness.clock import boot_ns, wall_ms


class History:
    """The file, while it is written."""

    def __init__(self, file: Path) -> None:
        self._file: TextIOBase = file.open("a", buffering=1)
        self._number = 0
        self.note("begin", wall_ms=wall_ms())

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def invoke(self, f: str, process: str, **request: Any) -> int:
        self._number += 1
        self._write(
            {"at": boot_ns(), "type": "invoke", "n": self._number, "f": f, "process": process, "request": request}
        )
        return self._number

    def complete(self, number: int, kind: str, **answer: Any) -> None:
        self._write({"at": boot_ns(), "type": kind, "n": number, "answer": answer})

    def note(self, what: str, **fields: Any) -> None:
        self._write({"at": boot_ns(), "type": "note", "f": what, **fields})

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class Op:
    """Times are of the boot clock in nanoseconds; `ended` is None for one that never returned."""

    f: str
    process: str
    request: dict[str, Any]
    began: int
    ended: int | None = None
    kind: str = "unknown"
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.kind == "ok"

    @property
    def failed(self) -> bool:
        return self.kind == "fail"


@dataclass(slots=True)
class Record:
    """A history, read."""

    ops: list[Op] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)

    def of(self, f: str) -> list[Op]:
        return [op for op in self.ops if op.f == f]

    def noted(self, what: str) -> list[dict[str, Any]]:
        return [note for note in self.notes if note["f"] == what]

    def boot_of(self, at_wall_ms: float) -> int:
        """When that wall-clock time was, on the boot clock."""
        begin = self.noted("begin")[0]
        return int(begin["at"] + (at_wall_ms - begin["wall_ms"]) * 1_000_000)

    def wall_of(self, at_ns: int) -> float:
        begin = self.noted("begin")[0]
        return float(begin["wall_ms"] + (at_ns - begin["at"]) / 1_000_000)


def parse(lines: Iterable[str]) -> Record:
    record = Record()
    open_ops: dict[int, Op] = {}
    for text in lines:
        line = json.loads(text)
        if line["type"] == "note":
            record.notes.append(line)
        elif line["type"] == "invoke":
            op = Op(line["f"], line["process"], line["request"], line["at"])
            open_ops[line["n"]] = op
            record.ops.append(op)
        else:
            op = open_ops.pop(line["n"])
            op.ended, op.kind, op.answer = line["at"], line["type"], line["answer"]
    return record


def read(file: Path) -> Record:
    with file.open() as lines:
        return parse(lines)
