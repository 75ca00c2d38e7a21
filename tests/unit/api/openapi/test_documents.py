"""The description of the API is made once, and not on the event loop: a leader that is silent is one no more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from raftsched.api.openapi import description, docs_page, documents
from raftsched.api.serving import Route


def test_it_is_made_once_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made_by: list[int] = []

    def describe(routes: Sequence[Route], version: str) -> dict[str, object]:
        made_by.append(threading.get_ident())
        return {"version": version}

    monkeypatch.setattr(description, "describe", describe)
    monkeypatch.setattr(docs_page, "render", lambda found: f"<p>{found['version']}")

    async def main() -> None:
        found = documents.Documents((), "1.2")
        assert await asyncio.gather(*[found.json() for _ in range(5)]) == [b'{"version":"1.2"}'] * 5
        assert await asyncio.gather(*[found.html() for _ in range(5)]) == [b"<p>1.2"] * 5

    asyncio.run(main())
    assert len(made_by) == 1
    assert made_by != [threading.get_ident()]
