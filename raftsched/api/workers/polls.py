"""Reads the bodies of polls, which may be large, and hold JSON that nobody has to look into.

One that is small is read like any other body. One that is large is read report by report, and others have their turn
meanwhile: free JSON (`result`, `state`) becomes the text that is kept, or the reason why none is, and never more
objects than that text may have.

A report that cannot be read is refused alone, where it says whose it is: the lease and the other runs of a worker are
not its fault.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from raftsched.api.http import strict
from raftsched.api.http.call import Call
from raftsched.api.http.problems import FieldError, Problem, pointer
from raftsched.api.http.slices import Slices
from raftsched.api.workers.apart import items, members
from raftsched.core.limits import RESULT_MAX, STATE_MAX
from raftsched.remote.reports import TOO_DEEP, TOO_LARGE, Judged, judge, not_valid
from raftsched.surface.worker_sessions import REPORTS_MAX, PollIn, RefusedReport, Report, Token
from raftsched.system.nesting import DEPTH_MAX, text_nests_deeper

WALKED_MAX = 64 * 1024  # bytes of what is looked through for each error, and for keys that are given twice
REST_MAX = 1024 * 1024  # of a poll without its reports
_FREE = (("result", RESULT_MAX), ("state", STATE_MAX))  # JSON of any kind, and how much of it is kept
_ESCAPED = 6  # bytes that stand for one, at most
_BODY = "The body"  # as what is wrong begins with it as a whole

T = TypeVar("T")


class _Head(msgspec.Struct, gc=False):
    token: Annotated[float, Meta(ge=1)]  # also 5.0, as some write an integer


class _Heads(msgspec.Struct):
    """Tells how many reports there are, without reading them."""

    reports: list[_Head] = []


def _parts_of(model: type[msgspec.Struct]) -> msgspec.json.Decoder[msgspec.Struct]:
    """Returns a decoder of the texts of its fields."""
    fields = [(field, msgspec.Raw, msgspec.Raw(b"")) for field in model.__struct_fields__]
    return msgspec.json.Decoder(msgspec.defstruct(f"{model.__name__}Parts", fields, forbid_unknown_fields=True))


_heads, _reports = msgspec.json.Decoder(_Heads), msgspec.json.Decoder(list[msgspec.Raw])
_poll, _poll_parts = msgspec.json.Decoder(PollIn), _parts_of(PollIn)
_report, _report_parts = msgspec.json.Decoder(Report), _parts_of(Report)
_number = msgspec.json.Decoder(int | float)
_any, _encode = msgspec.json.Decoder(Any), msgspec.json.Encoder().encode


async def read_poll(call: Call[PollIn]) -> tuple[PollIn, list[RefusedReport]]:
    """Returns it with the reports that can be read, and the refusals of the others. Raises Problem invalid-json,
    invalid-body."""
    try:
        return (call.body if len(call.raw) <= WALKED_MAX else await _read_large(call)), []
    except Problem as problem:
        found = await _read_apart(call.raw)
        if found is None:
            raise problem from None
        return found


async def _read_apart(raw: bytes) -> tuple[PollIn, list[RefusedReport]] | None:
    """Reads each report by itself. None: it is not they that are wrong. Raises Problem."""
    slices = Slices()
    refused: list[RefusedReport] = []
    try:
        parts = await members(raw, slices)
        (reports,) = [text for key, text in parts if key == "reports"]
        texts = await items(reports, slices)
        rest = b"{%s}" % b",".join(b"%s:%s" % (_encode(key), text) for key, text in parts if key != "reports")
        if len(texts) > REPORTS_MAX or len(rest) > WALKED_MAX:
            return None
        poll: PollIn = _read(rest, PollIn, _poll)
        for text in texts:
            try:
                poll.reports.append(await _read_report(text, "", slices))
            except Problem as problem:
                (token,) = [value for key, value in await members(text, slices) if key == "token"]
                refused.append(not_valid(_token_of(token), _of_a_report(problem.detail)))
            await slices.turn()
    except ValueError:  # it cannot be said whose a report is
        return None
    return (poll, refused) if refused else None


def _token_of(text: bytes) -> int:
    """Returns it, also where it is written as 5.0. Raises ValueError: it is none."""
    number = _number.decode(text)
    whole = int(number) if math.isfinite(number) else 0
    return msgspec.convert(whole if whole == number else number, Token)


def _of_a_report(detail: str) -> str:
    return f"The report{detail.removeprefix(_BODY)}" if detail.startswith(_BODY) else detail


async def _read_large(call: Call[PollIn]) -> PollIn:
    slices = Slices()
    given = len(_decoded(_heads, call.raw).reports)
    if given > REPORTS_MAX:
        wrong = FieldError("/reports", f"has {given} items; at most {REPORTS_MAX} are allowed")
        raise Problem("invalid-body", errors=[wrong])
    await slices.turn()
    parts = _texts(_poll_parts, call.raw)
    await slices.turn()
    reports = parts.pop("reports") or b"[]"
    rest = _joined(parts)
    if len(rest) > REST_MAX:
        raise Problem("invalid-body", f"A poll has {REST_MAX:,} bytes at most beside its reports.")
    poll: PollIn = _read(rest, PollIn, _poll)
    await slices.turn()
    texts: list[msgspec.Raw] = _decoded(_reports, reports)
    for place, raw in enumerate(texts):
        poll.reports.append(await _read_report(bytes(raw), pointer("reports", place), slices))
        await slices.turn()
    return poll


async def _read_report(raw: bytes, at: str, slices: Slices) -> Report:
    if len(raw) <= WALKED_MAX:
        report = _read(raw, Report, _report, at)
        await slices.turn()
        for field, most in _FREE:
            value = getattr(report, field)
            setattr(report, field, None if value is None else judge(value, most))
        return report
    parts = _texts(_report_parts, raw, at)
    free = {field: parts.pop(field) for field, _ in _FREE}
    report = _read(_joined(parts), Report, _report, at)
    for field, most in _FREE:
        setattr(report, field, await _judged(free[field], most, at + pointer(field), slices))
    return report


def _texts(decoder: msgspec.json.Decoder[msgspec.Struct], raw: bytes, at: str = "") -> dict[str, bytes]:
    return {field: bytes(text) for field, text in msgspec.structs.asdict(_decoded(decoder, raw, at)).items()}


def _joined(parts: dict[str, bytes]) -> bytes:
    return b"{%s}" % b",".join(b'"%s":%s' % (field.encode(), text) for field, text in parts.items() if text)


def _read(raw: bytes, model: type[T], decoder: msgspec.json.Decoder[T], at: str = "") -> T:
    """Reads what is small with all that is wrong with it. Raises Problem."""
    if len(raw) > WALKED_MAX:
        return _decoded(decoder, raw, at)
    try:
        return strict.read(raw, model, decoder, "invalid-body")
    except Problem as problem:
        errors = [replace(one, pointer=at + one.pointer) for one in problem.errors if isinstance(one, FieldError)]
        raise Problem(problem.code, "" if errors else problem.detail, errors=errors) from None


async def _judged(raw: bytes, most: int, at: str, slices: Slices) -> Judged | None:
    if raw in (b"", b"null"):
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
