"""The web page's files (`raftsched.ui`) as answers. It is no part of the API, and needs no token: nothing in it is
secret, and what it shows it has to ask the API for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

from aiohttp import web

from raftsched.api.auth.access import count_open
from raftsched.api.context import ApiContext
from raftsched.api.http.origins import MemberOrigins
from raftsched.api.http.preconditions import not_modified
from raftsched.api.http.problems import Problem
from raftsched.system import background
from raftsched.ui import files

HOME = "/ui/"
FOR_EVER = "public, max-age=31536000, immutable"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src {}; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_LOCKED_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


def endpoints(ctx: ApiContext, members: MemberOrigins) -> list[tuple[str, Endpoint]]:
    """Returns the addresses of the page, all of them for GET and HEAD, with what answers there."""

    async def home(request: web.Request) -> web.StreamResponse:
        if not is_asked_for(request):
            raise Problem("not-found", f"There is nothing at /; the page is at {HOME}, and /docs lists what there is.")
        return _elsewhere()

    async def below(request: web.Request) -> web.StreamResponse:
        return _elsewhere()

    async def asset(request: web.Request) -> web.StreamResponse:
        count_open(ctx, request.remote or "")
        found = await _files()
        if request.match_info["digest"] != found.digest:
            raise Problem("not-found", "This is of another version of the page; load it again.")
        file = found.get(request.match_info["path"])
        if file is None:
            raise Problem("not-found", f"The page has no file {request.match_info['path'][:200]}.")
        return await answer_file(request, file, FOR_EVER, "")

    async def shell(request: web.Request) -> web.StreamResponse:
        count_open(ctx, request.remote or "")
        found = await _files()
        policy = policy_of(_named(members, "https://" if request.secure else "http://"))
        response = await answer_file(request, found.shell, "no-cache", sha256(policy.encode()).hexdigest()[:8])
        return guarded(response, policy)

    return [
        ("/", home),
        (HOME.rstrip("/"), below),
        (f"{files.ASSETS}/{{digest}}/{{path:.*}}", asset),
        ("/ui/{tail:.*}", shell),
    ]


async def _files() -> files.Files:
    return files.load() if files.load.cache_info().currsize else await asyncio.to_thread(files.load)


def is_asked_for(request: web.BaseRequest) -> bool:
    """Returns whether a browser asks for the page, to show it to people."""
    ours = request.path in ("/", HOME.rstrip("/")) or request.path.startswith(HOME)
    return ours and request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "").lower()


async def show_locked(refused: web.Response) -> None:
    """Makes the refusal of a locked node a page for people to read."""
    file = (await _files()).locked
    refused.body = file.body
    refused.headers["Content-Type"] = file.media_type
    refused.headers["Content-Security-Policy"] = _LOCKED_POLICY


def policy_of(others: Sequence[str]) -> str:
    """Returns the Content-Security-Policy of a page that may ask this node, and these others."""
    return _POLICY.format(" ".join(["'self'", *others]))


def guarded(response: web.Response, policy: str) -> web.Response:
    """Returns the response, with what keeps a page apart from all others in the browser."""
    response.headers["Content-Security-Policy"] = policy
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    return response


def _named(members: MemberOrigins, scheme: str) -> list[str]:
    """Returns the members that a policy can name. `scheme`: of this node; browsers let a page of https ask nothing by
    plain HTTP. An IPv6 address cannot be named (W3C CSP 3, section 2.3.1)."""
    return sorted(one for one in members.all() if one.startswith(scheme) and "[" not in one)


def _elsewhere() -> web.Response:
    return web.Response(status=302, headers={"Location": HOME})


async def answer_file(
    request: web.Request, file: files.File, kept: str, variant: str, offered: Sequence[str] = files.CODINGS
) -> web.Response:
    """Returns the file in the best coding of those `offered` that is ready, or 304. `variant` is of headers that the
    caller adds."""
    best, *others = [one for one in files.codings_of(request.headers.get("Accept-Encoding", "")) if one in offered]
    coding = best
    if best == "br" and not file.is_encoded(best):
        _encode_soon(file, best)
        coding = others[0]  # who comes first does not wait for what takes long
    etag = file.etag(coding, variant)
    headers = {"ETag": etag, "Cache-Control": kept, "Vary": "Accept-Encoding"}
    if not_modified(request, etag):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = file.media_type
    if coding:
        headers["Content-Encoding"] = coding
    if not file.is_encoded(coding):
        await asyncio.to_thread(file.encoded, coding)
    return web.Response(body=file.encoded(coding), headers=headers)


_encoding: dict[tuple[int, str], asyncio.Task[bytes]] = {}


def _encode_soon(file: files.File, coding: str) -> None:
    key = (id(file), coding)
    if key not in _encoding:
        task = _encoding[key] = background.start("webpage", asyncio.to_thread(file.encoded, coding))
        task.add_done_callback(lambda _: _encoding.pop(key))
