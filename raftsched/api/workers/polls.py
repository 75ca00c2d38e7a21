"""Reads the bodies of polls, which may be large, and hold JSON that nobody has to look into.

One that is small is read like any other body. One that is large is read report by report, and others have their turn
meanwhile: free JSON (`result`, `state`) becomes the text that is kept, or the reason why none is, and never more
objects than that text may have.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from raftsched.api.http import strict
from raftsched.api.http.call import Call
from raftsched.api.http.problems import FieldError, Problem, pointer
from raftsched.api.http.slices import Slices
from raftsched.api.workers.schema import PollIn
from raftsched.core.limits import RESULT_MAX, STATE_MAX
from raftsched.nesting import DEPTH_MAX, text_nests_deeper
from raftsched.remote.protocol import REPORTS_MAX, Report
from raftsched.remote.reports import TOO_DEEP, TOO_LARGE, Judged, judge

WALKED_MAX = 64 * 1024  # bytes of what is looked through for each error, and for keys that are given twice
REST_MAX = 1024 * 1024  # of a poll without its reports
_ESCAPED = 6  # bytes that stand for one, at most

T = TypeVar("T")


class _Head(msgspec.Struct, gc=False):
    token: Annotated[float, Meta(ge=1)]  # also 5.0, as some write an integer


class _Heads(msgspec.Struct):
    """Tells how many reports there are, without reading them."""

    reports: list[_Head] = []


class _Report(Report, forbid_unknown_fields=True, kw_only=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    state: msgspec.Raw = msgspec.Raw(b"null")


_Parts = msgspec.defstruct(
    "_Parts", [(field, msgspec.Raw, msgspec.Raw(b"")) for field in PollIn.__struct_fields__], forbid_unknown_fields=True
)
_heads, _parts = msgspec.json.Decoder(_Heads), msgspec.json.Decoder(_Parts)
_poll, _reports = msgspec.json.Decoder(PollIn), msgspec.json.Decoder(list[msgspec.Raw])
_small, _large = msgspec.json.Decoder(Report), msgspec.json.Decoder(_Report)
_any, _encode = msgspec.json.Decoder(Any), msgspec.json.Encoder().encode


async def read_poll(call: Call[PollIn]) -> PollIn:
    """Raises Problem invalid-json, invalid-body."""
    if len(call.raw) <= WALKED_MAX:
        return call.body
    slices = Slices()
    given = len(_decoded(_heads, call.raw).reports)
    if given > REPORTS_MAX:
        wrong = FieldError("/reports", f"has {given} items; at most {REPORTS_MAX} are allowed")
        raise Problem("invalid-body", errors=[wrong])
    await slices.turn()
    parts = msgspec.structs.asdict(_decoded(_parts, call.raw))
    await slices.turn()
    reports = bytes(parts.pop("reports")) or b"[]"
    rest = b",".join(b'"%s":%s' % (field.encode(), part) for field, part in parts.items() if bytes(part))
    poll = _read_rest(b"{" + rest + b"}")
    await slices.turn()
    texts: list[msgspec.Raw] = _decoded(_reports, reports)
    for place, raw in enumerate(texts):
        poll.reports.append(await _read_report(bytes(raw), pointer("reports", place), slices))
        await slices.turn()
    return poll


def _read_rest(raw: bytes) -> PollIn:
    """Reads a poll without its reports."""
    if len(raw) <= WALKED_MAX:
        return strict.read(raw, PollIn, _poll, "invalid-body")
    if len(raw) > REST_MAX:
        raise Problem("invalid-body", f"A poll has {REST_MAX:,} bytes at most beside its reports.")
    return _decoded(_poll, raw)


async def _read_report(raw: bytes, at: str, slices: Slices) -> Report:
    if len(raw) > WALKED_MAX:
        large = _decoded(_large, raw, at)
        fields = {field: getattr(large, field) for field in Report.__struct_fields__}
        for field, most in (("result", RESULT_MAX), ("state", STATE_MAX)):
            fields[field] = await _judged(bytes(fields[field]), most, at + pointer(field), slices)
        return Report(**fields)
    try:
        report = strict.read(raw, Report, _small, "invalid-body")
    except Problem as problem:
        errors = [replace(one, pointer=at + one.pointer) for one in problem.errors if isinstance(one, FieldError)]
        raise Problem(problem.code, "" if errors else problem.detail, errors=errors) from None
    await slices.turn()
    if report.result is not None:
        report.result = judge(report.result, RESULT_MAX)
    if report.state is not None:
        report.state = judge(report.state, STATE_MAX)
    return report


async def _judged(raw: bytes, most: int, at: str, slices: Slices) -> Judged | None:
    if raw == b"null":
        return None
    if len(raw) > _ESCAPED * most:
        return Judged(None, TOO_LARGE)
    deeper = text_nests_deeper(raw)
    await slices.turn()
    if deeper:
        return Judged(None, TOO_DEEP)
    value = _decoded(_any, raw, at)
    await slices.turn()
    kept = _encode(value)
    await slices.turn()
    return Judged(None, TOO_LARGE) if len(kept) > most else Judged(kept)


def _decoded(decoder: msgspec.json.Decoder[T], raw: bytes, at: str = "") -> T:
    """Raises Problem with what is wrong first."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise Problem("invalid-body", errors=[FieldError(at, f"is not as it must be: {error}")]) from None
    except UnicodeDecodeError:
        raise Problem("invalid-json", "The body is not UTF-8; JSON must be.") from None
    except RecursionError:
        raise Problem("invalid-json", f"The JSON nests too deeply; at most {DEPTH_MAX} levels are allowed.") from None
    except ValueError as error:
        raise Problem("invalid-json", f"The body is not JSON: {error}.") from None
