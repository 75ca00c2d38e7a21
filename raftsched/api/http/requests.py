"""Checks and readers of the parts of a request: Host and Origin, type and size of the body, query parameters."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from aiohttp import StreamReader, web

from raftsched import names
from raftsched.api.auth.callers import note_read_index, request_state
from raftsched.api.context import ApiContext
from raftsched.api.http.cursors import decode_cursor
from raftsched.api.http.durations import parse_time
from raftsched.api.http.preconditions import create_only, if_match
from raftsched.api.http.problems import ParameterError, Problem, code_of
from raftsched.core.ids import parse_instance, parse_job
from raftsched.errors import Meaning
from raftsched.surface.operation import JSON, Operation

_Id = TypeVar("_Id")

PAGE_DEFAULT = 100
PAGE_MAX = 1_000
MIN_INDEX_WAIT_S = 5.0
_VERDICTS_MAX = 1_024
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/]+)(?::[0-9]{1,5})?", re.ASCII)
_INFLATE = {"gzip": (31,), "deflate": (15, -15)}  # windows, as zlib has it; some send deflate without its header
BODY_S = 30.0  # that a body may take to come,
BODY_RATE = 64 * 1024  # and one second more for each so many bytes of it that came
_PIECE = 64 * 1024  # bytes inflated before others have their turn
_OWN_SITES = frozenset({"same-origin", "none"})  # none: the address was typed, or is a bookmark
PAGES = ("/", "/ui", "/docs")  # for people, so that links of other sites may lead there,
PAGES_BELOW = "/ui/"  # and to all that is below this
IDEMPOTENCY_KEY = "Idempotency-Key"
_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")
_READ_PARAMETERS = frozenset({"consistency", "min_index"})


class Addressed(Protocol):
    """A request, or a call: it has the parts of its address that the route names, such as `id`."""

    @property
    def match_info(self) -> Mapping[str, str]: ...


class HostCheck:
    """No web page may drive a node through a browser: neither by a name of its own that leads to this address (Host),
    nor by a request across origins (Origin, and what browsers say of themselves in Sec-Fetch-Site)."""

    def __init__(self, hosts: Iterable[str], members: Container[str] = ()) -> None:
        """`members`: other origins whose pages may ask here."""
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._members = members
        self._verdicts: dict[str, bool] = {}

    def __call__(self, host: str | None, origin: str | None) -> bool:
        """Returns whether a page of another member asks. Raises Problem forbidden-host."""
        if host is None or not self._known(host):
            raise Problem(
                "forbidden-host",
                "The Host header must be an IP address, localhost, or the advertised name of this node.",
            )
        if origin is None or _same(origin, host):
            return False
        if origin in self._members:
            return True
        raise Problem("forbidden-host", f"Requests from pages of other origins are refused; this one is {host}.")

    def _known(self, host: str) -> bool:
        verdict = self._verdicts.get(host)
        if verdict is None:
            verdict = self._judge(host)
            if len(self._verdicts) >= _VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[host] = verdict
        return verdict

    def _judge(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].lower()
        if name.startswith("["):
            name = name[1:-1]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.rstrip(".") in self._hosts
        return True


def check_site(method: str, path: str, headers: Mapping[str, str]) -> None:
    """Refuses what a browser says to come from another site (W3C Fetch Metadata). Browsers say nothing when they ask
    for an image or a script of another origin but this. Raises Problem forbidden-host."""
    site = headers.get("Sec-Fetch-Site")
    if site is None or site.strip().lower() in _OWN_SITES:
        return
    to_a_page = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest", "document") == "document"
    if to_a_page and method in ("GET", "HEAD") and (path in PAGES or path.startswith(PAGES_BELOW)):
        return
    raise Problem("forbidden-host", "Requests of other sites are refused; links may lead to /ui/ and /docs.")


def _same(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def check_type(request: web.Request, types: Collection[str] = (JSON,)) -> None:
    """Raises Problem unsupported-media-type."""
    content_type = request.headers.get("Content-Type", "")
    if content_type in types:
        return
    kind, *parameters = content_type.split(";")
    if kind.strip().lower() in types:
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
                raise Problem("unsupported-media-type", f"JSON is UTF-8; the charset {value.strip()[:40]} is not read.")
        return
    reason = f"it is {content_type[:80]}" if content_type else "none is given"
    raise Problem("unsupported-media-type", f"Content-Type must be {' or '.join(sorted(types))}; {reason}.")


def unknown_encoding(encoding: str) -> Problem:
    reason = f"it is {encoding[:40]}" if encoding else "this one is not known"
    return Problem(
        "unsupported-media-type",
        f"Content-Encoding must be gzip, deflate, or left out; {reason}.",
        headers={"Accept-Encoding": "gzip, deflate"},
    )


async def read_body(request: web.Request, limit: int) -> bytes:
    """All of the body, decompressed; the same when it is asked for again. Raises Problem too-large as soon as it is
    known to be over the limit (bytes), compressed or not."""
    asked = request_state()
    if asked.body is not None:
        return asked.body
    given = request.headers.get("Content-Encoding")
    encoding = "identity" if given is None else given.strip().lower()
    if encoding != "identity" and encoding not in _INFLATE:
        raise unknown_encoding(given or "")
    length = request.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    try:
        raw = await _read(request.content, limit)
        if encoding != "identity":
            raw = await _inflated(raw, encoding, limit)
    except (web.RequestPayloadError, zlib.error):
        raise Problem(
            "invalid-json", "The body cannot be read; it breaks off, or is not encoded as its headers say."
        ) from None
    asked.body = raw
    return raw


async def _inflated(raw: bytes, encoding: str, limit: int) -> bytes:
    """No more than one byte above the limit is ever inflated, and others have their turn meanwhile. Raises
    zlib.error."""
    wbits, *other = _INFLATE[encoding]
    if other and raw and not _has_zlib_header(raw):
        wbits = other[0]
    inflater = zlib.decompressobj(wbits)
    parts: list[bytes] = []
    size = 0
    while not inflater.eof:
        part = inflater.decompress(raw, min(_PIECE, limit + 1 - size))
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not part and not raw:
            break
        parts.append(part)
        raw = inflater.unconsumed_tail
        if size and not size % _PIECE:
            await asyncio.sleep(0)
    if not inflater.eof or inflater.unused_data:
        raise zlib.error("it breaks off, or goes on after its end")
    return b"".join(parts)


def _has_zlib_header(raw: bytes) -> bool:
    """RFC 1950, section 2.2."""
    return raw[0] & 15 == 8 and len(raw) > 1 and int.from_bytes(raw[:2]) % 31 == 0


async def _read(content: StreamReader, limit: int) -> bytes:
    if content.is_eof() and not content.at_eof():  # all of it has come: the usual case, one piece
        raw = content.read_nowait(-1)
    else:
        parts: list[bytes] = []
        size = 0
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(began + BODY_S) as deadline:
                async for part in content.iter_any():
                    size += len(part)
                    if size > limit:
                        raise _too_large(limit)
                    parts.append(part)
                    deadline.reschedule(began + BODY_S + size / BODY_RATE)
        except TimeoutError:
            raise Problem(
                "request-timeout",
                f"The body did not come in full: it has {BODY_S:.0f} s, and one more for each {BODY_RATE >> 10} KiB.",
            ) from None
        raw = parts[0] if len(parts) == 1 else b"".join(parts)
    if len(raw) > limit:
        raise _too_large(limit)
    return raw


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"The body is too large; {limit:,} bytes is the limit.")


class Query:
    """The query parameters of a request; unknown, repeated and malformed ones are refused with 400."""

    def __init__(self, request: web.Request, *known: str) -> None:
        self._values: dict[str, str] = {}
        if not request.query_string:
            return
        query = request.query
        errors: dict[str, ParameterError] = {}
        for name in query:
            if name not in known:
                allowed = f"known are {', '.join(sorted(known))}" if known else "none are known here"
                errors[name] = ParameterError(name[:64], f"is not a parameter; {allowed}")
            elif len(query.getall(name)) > 1:
                errors[name] = ParameterError(name, "is given more than once")
        if errors:
            wrong = list(errors.values())
            raise Problem("invalid-parameter", " ".join(f'"{e.parameter}" {e.detail}.' for e in wrong), wrong)
        self._values = dict(query)

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def parsed(self, name: str, parse: Callable[[str], int]) -> int | None:
        """`parse` raises ValueError with what is wrong and what would be right."""
        text = self._values.get(name)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise bad_parameter(name, str(error), code_of(error)) from None

    def time(self, name: str) -> int | None:
        """Milliseconds."""
        return self.parsed(name, parse_time)

    def integer(self, name: str, low: int, high: int) -> int | None:
        def parse(text: str) -> int:
            if not text.isascii() or not text.isdigit() or len(text) > 18 or not low <= int(text) <= high:
                raise ValueError(f"must be an integer from {low} to {high}")
            return int(text)

        return self.parsed(name, parse)

    def limit(self) -> int:
        return self.integer("limit", 1, PAGE_MAX) or PAGE_DEFAULT

    def choice(self, name: str, *choices: str) -> str | None:
        text = self._values.get(name)
        if text is not None and text not in choices:
            raise bad_parameter(name, f"must be one of {', '.join(choices)}")
        return text

    def flag(self, name: str) -> bool:
        return self.choice(name, "true", "false") == "true"

    def cursor(self, listing: str) -> bytes | None:
        """The key after which the list goes on."""
        text = self._values.get("cursor")
        if text is None:
            return None
        try:
            return decode_cursor(listing, self.filters(), text)
        except ValueError as error:
            raise bad_parameter("cursor", str(error), "unknown-reference") from None

    def filters(self) -> dict[str, str]:
        """Returns the parameters that decide which rows a list has: all but the page, its fields and its freshness."""
        return {k: v for k, v in self._values.items() if k not in ("limit", "cursor", "fields", *_READ_PARAMETERS)}


def bad_parameter(name: str, detail: str, code: Meaning | None = None) -> Problem:
    return Problem("invalid-parameter", f'The parameter "{name}" {detail}.', [ParameterError(name, detail, code)])


NAMESPACE_HELP = f"must have {names.NAMESPACE.rule}"


def check_namespace(text: str | None) -> None:
    """Checks a filter by namespace. Raises Problem invalid-parameter."""
    if text is not None and not names.NAMESPACE.allows(text):
        raise bad_parameter("namespace", NAMESPACE_HELP)


READ = tuple(sorted(_READ_PARAMETERS))


def check_operation(request: web.Request, said: Operation) -> Query:
    """Returns the query parameters. Nothing is taken but what the operation declares of parameters and headers: a
    condition that would be ignored must not look as if it had been kept. Raises Problem invalid-parameter."""
    query = Query(request, *said.query)
    headers = request.headers
    if request.method in ("GET", "HEAD"):
        return query
    for name in ("If-Match", "If-None-Match"):
        if name in headers and name not in said.headers:
            known = f"; known are {', '.join(said.headers)}" if said.headers else ""
            raise Problem("invalid-parameter", f"{name} has no meaning here, leave it out{known}.")
    if "If-Match" in headers:
        if_match(request, of_job=said.of_job)
    if "If-None-Match" in headers:
        create_only(request)
    if IDEMPOTENCY_KEY in headers and IDEMPOTENCY_KEY in said.headers:
        idempotency_key(request)
    return query


def idempotency_key(request: web.Request) -> str | None:
    """Returns the Idempotency-Key. Raises Problem invalid-parameter, also where the request would make no use of it, as
    when it only counts."""
    given = request.headers.getall(IDEMPOTENCY_KEY, [])
    if not given:
        return None
    if len(given) > 1 or not _VISIBLE.fullmatch(given[0]):
        raise Problem(
            "invalid-parameter", f"{IDEMPOTENCY_KEY} must be given once, as 1 to 255 visible ASCII characters."
        )
    return given[0]


async def fresh_enough(ctx: ApiContext, query: Query) -> None:
    """Waits until reads are as fresh as asked. ?consistency=leader: what was committed before is applied here;
    ?min_index=N: this node has applied N. Raises NoLeader, Overloaded, Problem behind."""
    if query.choice("consistency", "local", "leader") == "leader":
        await catch_up(ctx)
    index = query.integer("min_index", 0, 2**53)
    if (
        index is not None
        and ctx.cluster.status().applied_index < index
        and not await ctx.log.wait_applied(index, MIN_INDEX_WAIT_S)
    ):
        raise Problem("behind", f"This node has not applied index {index} yet; try again or ask another node.")
    note_read_index(ctx.applied())


async def catch_up(ctx: ApiContext) -> None:
    """Returns when all that was committed before is applied here."""
    await ctx.log.barrier(ctx.propose_timeout_s)
    note_read_index(ctx.applied())


def id_of(request: Addressed, parse: Callable[[str], _Id | None], absent: str) -> _Id:
    """Raises Problem not-found for a text that is no id, as for one that names nothing. `absent`: its detail, where {}
    is the text."""
    text = request.match_info["id"]
    found = parse(text)
    if found is None:
        raise Problem("not-found", absent.format(text[:64]))
    return found


def job_id_of(request: Addressed) -> int:
    return id_of(request, parse_job, 'There is no job "{}"; ids have 13 characters, names go by namespace.')


def instance_key_of(request: Addressed) -> bytes:
    return id_of(request, parse_instance, 'There is no instance "{}".')
