"""Bodies of many jobs, cut into the texts of these without reading them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from io import BytesIO
from itertools import islice
from typing import Any

import msgspec

from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.slices import Slices

BATCH_MAX = 10_000  # jobs
AT_ONCE = 1024 * 1024  # bytes that are cut right after they have come
LOOKED_AT = 1_000  # lines of a body that are passed over between two looks at the time


async def job_texts(raw: bytes, slices: Slices, *, lines: bool = False) -> list[bytes]:
    """Returns the texts of the jobs of a body: a JSON list, or one job in each line. Raises Problem: invalid-json,
    invalid-job, too-large."""
    if len(raw) > AT_ONCE:
        await slices.next()
    given = await _in_lines(raw, slices) if lines else _in_list(raw)
    await slices.turn()
    if len(given) > BATCH_MAX:
        raise Problem("too-large", f"The body has more than {BATCH_MAX:,} jobs, which is the limit.")
    return given


_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


@cache
def _splitter() -> msgspec.json.Decoder[Any]:
    """Returns what cuts a JSON list into its texts. What is beyond its fields is passed over: millions of items cost
    as little as their bytes. Made when it is needed first, which takes some 20 ms."""
    fields = [(f"at_{place}", msgspec.Raw, msgspec.Raw()) for place in range(BATCH_MAX + 1)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", fields, array_like=True))


def _in_list(raw: bytes) -> list[bytes]:
    """The texts of a list, one too many at most. Raises Problem invalid-json, invalid-job."""
    if not raw.strip():
        raise Problem("invalid-json", "The body is empty; it must be a JSON list of jobs.")
    try:
        few = raw.count(b",") < BATCH_MAX  # no more items than commas can there be
        items = _list(raw) if few else msgspec.structs.astuple(_splitter().decode(raw))
    except msgspec.ValidationError:
        raise Problem("invalid-job", errors=[FieldError("", "must be a list of jobs, or one job per line")]) from None
    except (ValueError, RecursionError) as error:
        raise Problem("invalid-json", f"The body is not JSON: {error}.") from None
    texts = map(bytes, items)
    return [text for text in texts if text]


async def _in_lines(raw: bytes, slices: Slices) -> list[bytes]:
    """The lines that hold something, one too many at most. There may be millions that are empty."""
    found: list[bytes] = []
    lines: Iterator[bytes] = iter(BytesIO(raw))
    while some := list(islice(lines, LOOKED_AT)):
        found += [line for line in some if not line.isspace()]
        if len(found) > BATCH_MAX:
            break
        await slices.turn()
    return found[: BATCH_MAX + 1]
