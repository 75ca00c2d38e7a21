"""Ids of operations never change: clients are generated from them, and the audit has them on record."""

from __future__ import annotations

from pathlib import Path

from raftsched.api.http import fastpath
from raftsched.api.routes import ROUTES
from tests.support.documented import document

KEPT = Path(__file__).parents[3] / "data" / "operation_ids.txt"  # new operations are added, none is changed


def test_every_operation_keeps_its_id() -> None:
    now = {
        f"{operation['operationId']} {method.upper()} {path}"
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    assert set(KEPT.read_text().splitlines()) == now


def test_the_fast_path_goes_by_the_id_of_the_operation_that_it_answers() -> None:
    ids = {(route.method, route.path): route.operation_id for route in ROUTES}
    assert ids[("POST", "/v1/jobs")] == fastpath.OPERATION_ID
