"""Requests of tests/data/requests.json, which are refused for what they mean, each with the whole of its answer."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kept.asking import Asking

RECORDED = Path(__file__).parents[2] / "data" / "requests.json"


async def meant(ask: Asking) -> None:
    for row in json.loads(RECORDED.read_text(encoding="utf-8")):
        if "before" not in row and "token" not in row:  # those need a cluster each
            await ask(row["method"], row["path"], row.get("body"))
