"""The documentation as a node serves it: pages at their addresses, what they load, and what browsers are told."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

import pytest

from raftsched.ui import docs
from scripts.website.built_in import packed
from tests.support.local_api import Client, one_node
from tests.support.tokens import guarded

MERGE = {"Content-Type": "application/merge-patch+json"}
BROWSER = {"Accept": "text/html,application/xhtml+xml", "Accept-Encoding": "identity"}
PAGES = {
    "/ui/docs/": ("raftsched", '<h1 id="raftsched">raftsched</h1><p><img src="{{assets}}/a.webp" alt=""></p>', 1.0),
    "/ui/docs/runbook/": ("Runbook", '<h1>Runbook</h1><p>When</p><h2 id="one">One &amp; <code>two</code></h2>x', 1.0),
    "/ui/docs/reference/errors/": ("Errors", "<h1>Errors</h1>", 0.3),
    "/ui/docs/files/x/": ("x", "<h1>x</h1>", 0.0),
}
CONTENT = {
    "pages": [{"address": at, "title": t, "html": html, "weight": w} for at, (t, html, w) in PAGES.items()],
    "nav": [["Start", [["raftsched", "/ui/docs/"], ["Runbook", "/ui/docs/runbook/"]]]],
    "words": [["stuck", "/ui/docs/runbook/#one", "Runbook"]],
    "pictures": {"a.webp": "UklGRg=="},
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> docs.Docs:
    """A documentation of four pages, so that no test needs the real one to be built."""
    made = docs.Docs(packed(CONTENT), docs.theme())
    monkeypatch.setattr(docs, "load", cache(lambda: made))
    return made


async def test_pages_have_addresses_that_end_with_a_slash(call: Client) -> None:
    for path, (title, _, _) in PAGES.items():
        status, body = await call("GET", path, headers=BROWSER)
        assert (status, call.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert call.headers["Cache-Control"] == "no-cache"
        assert f"{title}</h1>" in body
        assert "{{" not in body
    for path in ("/ui/docs", "/ui/docs/runbook", "/ui/docs/runbook.md", "/ui/docs/reference/errors"):
        assert (await call("GET", path, headers=BROWSER))[0] == 302
        assert call.headers["Location"] == path.removesuffix(".md") + "/"


async def test_what_a_page_loads_is_its_own_and_kept_for_ever(call: Client, small: docs.Docs) -> None:
    _, body = await call("GET", "/ui/docs/", headers=BROWSER)
    named = set(re.findall(r'(?:src|href|data-index)="(/ui/docs/assets/[^"]+)"', body))
    assert {path.rpartition("/")[2] for path in named} == {
        *("docs.js", "search.js", "docs.css", "theme.js", "icon.svg", "search.json", "a.webp"),
    }
    for path in named:
        status, _ = await call("HEAD", path)
        assert status == 200, path
        assert call.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    for path in (f"{small.assets}/page.html", f"{small.assets}/..%2fdocs.py", f"{docs.ASSETS}/0000/docs.js"):
        assert (await call("GET", path))[1]["code"] == "not-found", path


async def test_no_script_runs_but_its_own(call: Client) -> None:
    _, body = await call("GET", "/ui/docs/runbook/", headers=BROWSER)
    policy = dict(part.strip().partition(" ")[::2] for part in call.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert not re.search(r"<script>|<style|style=|\son\w+=", body)


async def test_a_page_is_sent_compressed_once_and_asked_for_by_its_tag(call: Client) -> None:
    async with call.session.get(call.url + "/ui/docs/runbook/", headers={"Accept-Encoding": "br, gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert b"Runbook" in gzip.decompress(await answer.read())
        tag = answer.headers["ETag"]
    known = {"Accept-Encoding": "gzip", "If-None-Match": tag}
    assert await call("GET", "/ui/docs/runbook/", headers=known) == (304, "")
    assert "Content-Security-Policy" in call.headers
    status, body = await call("HEAD", "/ui/docs/runbook/", headers={"Accept-Encoding": "identity"})
    assert (status, body) == (200, "")
    status, problem = await call("POST", "/ui/docs/runbook/")
    assert (status, problem["code"], call.headers["Allow"]) == (405, "method-not-allowed", "GET, HEAD")


@pytest.mark.parametrize("path", ["/ui/docs/nothing/", "/ui/docs//evil.example/", "/ui/docs/..%2fjobs", "/ui/docs/%00"])
async def test_what_is_no_page_is_not_found(call: Client, path: str) -> None:
    status, body = await call("GET", path, headers=BROWSER)
    assert (status, "There is no such page" in body) == (404, True)
    assert "Content-Security-Policy" in call.headers
    status, problem = await call("GET", path, headers={"Accept": "application/json"})
    assert (status, problem["code"]) == (404, "not-found")


async def test_what_is_asked_for_and_is_no_page_takes_the_place_of_none(call: Client, small: docs.Docs) -> None:
    kept = small.page("/ui/docs/runbook/")
    for number in range(40):
        assert (await call("GET", f"/ui/docs/none-{number}/", headers=BROWSER))[0] == 404
    assert small.page("/ui/docs/runbook/") is kept


async def test_the_search_has_sections_of_pages_and_words_that_lead_to_them(call: Client, small: docs.Docs) -> None:
    _, index = await call("GET", f"{small.assets}/search.json", headers={"Accept-Encoding": "identity"})
    assert ["/ui/docs/runbook/#one", "Runbook", "One & two", "x", 1.0] in index["sections"]
    assert ["/ui/docs/reference/errors/", "Errors", "", "Errors", 0.3] in index["sections"]
    assert not [section for section in index["sections"] if "/files/" in section[0]]
    assert index["words"] == CONTENT["words"]


async def test_a_node_without_documentation_says_how_to_get_it(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "load", cache(lambda: None))
    status, problem = await call("GET", "/ui/docs/")
    assert (status, problem["code"]) == (404, "not-found")
    assert "./scripts/docs node" in problem["detail"]


async def test_a_locked_node_shows_none_of_it(tmp_path: Path) -> None:
    async with one_node(tmp_path, guarded=True) as call:
        for path in ("/ui/docs/", "/ui/docs/runbook/"):
            status, body = await call("GET", path, headers=BROWSER)
            assert (status, "This node is locked" in body, "Runbook" in body) == (401, True, False)


async def test_it_needs_no_token_and_is_counted_by_address(call: Client, small: docs.Docs) -> None:
    admin = (await guarded(call))["admin"]
    change = {"rate_per_address": 1, "burst_per_address": 2}
    assert (await admin("PATCH", "/v1/cluster/settings", change, MERGE))[0] == 200
    call.context.forget_settings()
    path = f"{small.assets}/docs.js"
    statuses = [(await call("GET", one))[0] for one in ("/ui/docs/", path, "/ui/docs/", path)]
    assert statuses == [200, 200, 429, 429]
