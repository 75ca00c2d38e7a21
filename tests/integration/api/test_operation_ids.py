"""Ids of operations never change: clients are generated from them, and the audit has them on record."""

from __future__ import annotations

from pathlib import Path

from tests.support.documented import document

KEPT = Path(__file__).parents[2] / "data" / "operation_ids.txt"  # new operations are added, none is changed


def test_every_operation_keeps_its_id() -> None:
    now = {
        f"{operation['operationId']} {method.upper()} {path}"
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    assert set(KEPT.read_text().splitlines()) == now
