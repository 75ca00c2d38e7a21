"""The web page as a node serves it: files under their digest, the shell everywhere else, and what browsers are told."""

from __future__ import annotations

import asyncio
import gzip
import re
from functools import cache
from pathlib import Path

import brotli
import pytest

from raftsched.api.http.replies import GUARDS
from raftsched.ui import files
from raftsched.ui.files import Files, load
from tests.support.local_api import Client, one_node
from tests.support.tokens import guarded

MERGE = {"Content-Type": "application/merge-patch+json"}
BROWSER = {"Accept": "text/html,application/xhtml+xml", "Accept-Encoding": "gzip, deflate, br"}


async def test_the_shell_is_at_every_address_of_the_page(call: Client) -> None:
    bodies = set()
    for path in ("/ui/", "/ui/jobs", "/ui/jobs/0d3k5xw2a9f4m/edit?revision=3", "/ui/queues/a%2Fb", "/ui/assets"):
        status, body = await call("GET", path, headers={"Accept-Encoding": "identity"})
        assert (status, call.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert call.headers["Cache-Control"] == "no-cache"
        for name, value in GUARDS.items():
            assert call.headers.getall(name) == [value]
        bodies.add(body)
    assert len(bodies) == 1
    assert "{{" not in body
    assert f'src="{load().assets}/app.js"' in body


async def test_what_the_shell_names_is_there_and_kept_for_ever(call: Client) -> None:
    _, body = await call("GET", "/ui/", headers={"Accept-Encoding": "identity"})
    named = set(re.findall(r'(?:src|href)="(/ui/assets/[^"]+)"', body))
    assert named
    for path in named:
        status, _ = await call("GET", path)
        assert status == 200, path
        assert call.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert call.headers["Vary"] == "Accept-Encoding"
        kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "png": "image/png"}
        assert call.headers["Content-Type"].partition(";")[0] == kinds[path.rpartition(".")[2]]


async def test_files_go_compressed_to_whom_takes_it(call: Client) -> None:
    path = f"{load().assets}/app.js"
    file = load().get("app.js")
    assert file is not None
    file.encoded("br")  # takes long, so that who asks first gets gzip
    tags = set()
    for accepted, coding in (("gzip", "gzip"), ("br;q=0.5, gzip", "br"), ("gzip;q=0", None), ("zstd", None)):
        async with call.session.get(call.url + path, headers={"Accept-Encoding": accepted}) as answer:
            raw = await answer.read()
            assert answer.headers.get("Content-Encoding") == coding, accepted
            assert {"gzip": gzip.decompress, "br": brotli.decompress, None: bytes}[coding](raw) == file.body
            tags.add(answer.headers["ETag"])
        known = {"Accept-Encoding": accepted, "If-None-Match": answer.headers["ETag"]}
        assert await call("GET", path, headers=known) == (304, "")
        assert call.headers["ETag"] == answer.headers["ETag"]
    assert len(tags) == 3
    async with call.session.head(call.url + path, headers={"Accept-Encoding": "gzip"}) as answer:
        assert (answer.status, await answer.read()) == (200, b"")
        assert answer.headers["Content-Length"] == str(len(file.encoded("gzip")))


@pytest.mark.parametrize(
    "path",
    [
        "/ui/assets/{digest}/../files.py",
        "/ui/assets/{digest}/%2e%2e/files.py",
        "/ui/assets/{digest}/..%2ffiles.py",
        "/ui/assets/{digest}//etc/passwd",
        "/ui/assets/{digest}/core/",
        "/ui/assets/{digest}/",
        "/ui/assets/{digest}/index.html",
        "/ui/assets/{digest}/app.js%00",
        "/ui/assets/00000000000000000000/app.js",
    ],
)
async def test_what_is_no_file_is_not_found(call: Client, path: str) -> None:
    head = f"GET {path.format(digest=load().digest)} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    status, body = await raw(call, head)
    assert status == 404, body
    assert "application/problem+json" in body


async def raw(call: Client, head: str) -> tuple[int, str]:
    """Returns the answer to a request whose address nobody has tidied up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
    writer.write(head.encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1]), answer


async def test_people_are_led_to_the_page_and_programs_are_not(call: Client) -> None:
    assert (await call("GET", "/", headers=BROWSER))[0] == 302
    assert call.headers["Location"] == "/ui/"
    status, problem = await call("GET", "/", headers={"Accept": "*/*"})
    assert (status, problem["code"]) == (404, "not-found")
    assert (await call("GET", "/ui"))[0] == 302
    for method, path in (("POST", "/ui/"), ("PUT", "/"), ("DELETE", f"{load().assets}/app.js"), ("OPTIONS", "/ui")):
        status, problem = await call(method, path)
        assert (status, problem["code"]) == (405, "method-not-allowed")
        assert call.headers["Allow"] == "GET, HEAD"


async def test_nothing_runs_in_the_page_but_its_own_files(call: Client) -> None:
    call.cluster.open_session("n1", call.url.removeprefix("http://"))
    await call("GET", "/ui/")
    said = dict(part.strip().partition(" ")[::2] for part in call.headers["Content-Security-Policy"].split(";"))
    assert said["default-src"] == said["base-uri"] == said["form-action"] == said["frame-ancestors"] == "'none'"
    assert said["script-src"] == said["style-src"] == "'self'"
    assert said["connect-src"] == f"'self' {call.url}"
    assert said["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in call.headers["Content-Security-Policy"]
    assert call.headers["Cross-Origin-Opener-Policy"] == "same-origin"


async def test_the_page_says_anew_which_members_it_may_ask(call: Client) -> None:
    await call("GET", "/ui/")
    known = {"If-None-Match": call.headers["ETag"]}
    assert (await call("GET", "/ui/", headers=known))[0] == 304
    call.cluster.open_session("n1", "n1.example:7401")
    call.cluster.clock.forward(2_000)
    assert (await call("GET", "/ui/", headers=known))[0] == 200
    assert "http://n1.example:7401" in call.headers["Content-Security-Policy"]


@pytest.mark.parametrize("announced", ["https://n1.example:7401", "[::1]:7401"])
async def test_members_that_a_page_cannot_ask_are_not_in_its_policy(call: Client, announced: str) -> None:
    call.cluster.open_session("n1", announced)
    await call("GET", "/ui/")
    assert "connect-src 'self';" in call.headers["Content-Security-Policy"]


async def test_links_of_other_sites_lead_to_the_page_and_frames_do_not(call: Client) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", **BROWSER}
    for path, status in (("/ui/jobs/x", 200), ("/ui/", 200), ("/ui", 302), ("/", 302)):
        assert (await call("GET", path, headers=link))[0] == status
    for other in ({"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}):
        assert (await call("GET", "/ui/", headers={**link, **other}))[0] == 403
    assert (await call("POST", "/ui/", headers=link))[0] == 403


async def test_a_locked_node_tells_people_how_it_is_unlocked(tmp_path: Path) -> None:
    async with one_node(tmp_path, guarded=True) as call:
        for path in ("/", "/ui/", "/ui/jobs", f"{load().assets}/app.js"):
            status, body = await call("GET", path, headers=BROWSER)
            assert (status, call.headers["Content-Type"]) == (401, "text/html; charset=utf-8")
            assert "raftsched tokens bootstrap --data DIR" in body
            assert call.headers["Content-Security-Policy"].startswith("default-src 'none'; base-uri")
            assert "{{" not in body
            assert "/ui/assets" not in body  # it would be refused
            status, problem = await call("GET", path)
            assert (status, problem["code"]) == (401, "locked")
        for method, path in (("POST", "/v1/jobs"), ("GET", "/docs"), ("POST", "/ui/")):
            assert (await call(method, path, headers=BROWSER))[1]["code"] == "locked"


async def test_the_page_needs_no_token_and_is_counted_by_address(call: Client) -> None:
    admin = (await guarded(call))["admin"]
    path = f"{load().assets}/app.js"
    change = {"rate_per_address": 1, "burst_per_address": 2}
    assert (await admin("PATCH", "/v1/cluster/settings", change, MERGE))[0] == 200
    call.context.forget_settings()
    assert [(await call("GET", one))[0] for one in ("/ui/", path, "/ui/", path)] == [200, 200, 429, 429]


async def test_who_asks_first_does_not_wait_for_the_best_coding(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Files({"index.html": b"", "locked.html": b"", "app.js": b"1" * 999})
    monkeypatch.setattr(files, "load", cache(lambda: fresh))
    path = f"{fresh.assets}/app.js"

    async def coding() -> str | None:
        async with call.session.get(call.url + path, headers={"Accept-Encoding": "gzip, br"}) as answer:
            return answer.headers.get("Content-Encoding")

    assert await coding() == "gzip"
    for task in asyncio.all_tasks():
        if task.get_name() == "webpage":
            await task
    assert await coding() == "br"
