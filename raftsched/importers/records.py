"""Reads exports of other schedulers' tables and APIs (CSV, JSON or YAML) as objects."""

from __future__ import annotations

import csv
import io
from typing import Any

import click

from raftsched.importers.documents import FILE_MAX, Document, read_documents
from raftsched.importers.foreign import Notes, Reading

ROWS_MAX = 200_000
FIELD_MAX = 1 << 20  # characters
_WRAPPERS = ("data", "content", "rows", "records", "list", "result", "results")
_DELIMITERS = ",;\t"
_TOTALS = ("total", "totalItems", "totalElements", "recordsTotal", "recordsFiltered")
_OF_ANSWERS = ("success", "code", "msg", "message", "timestamp", "index", "page", "pageNum", "pageSize", "pagesize",
               "size", "offset", "totalPages", "draw")  # fmt: skip


def read_records(data: bytes, source: str, reading: Reading) -> list[Document]:
    """The objects of a file; answers of APIs are unwrapped ({"data": {"data": [...]}}), and what they say beside is
    noted. Raises a usage error."""
    if looks_like_csv(data):
        return _of_csv(data, source)
    found: list[Document] = []
    for document in read_documents(data, source):
        found += _unwrapped(document.value, document.place, 0, reading)
    return found


def looks_like_csv(data: bytes) -> bool:
    """Returns whether the first line is one of column names."""
    first = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].strip()
    words = [word.strip(b'"` ') for word in first.replace(b";", b",").replace(b"\t", b",").split(b",")]
    return len(words) > 2 and all(word.replace(b"_", b"").isalnum() for word in words)


def _of_csv(data: bytes, source: str) -> list[Document]:
    if len(data) > FILE_MAX:
        raise click.UsageError(f"{source} has {len(data):,} bytes; {FILE_MAX:,} is the limit: split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{source} is not UTF-8 text") from None
    first = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=first.count)
    found: list[Document] = []
    before = csv.field_size_limit(FIELD_MAX)
    try:
        reader = csv.reader(io.StringIO(text.lstrip()), delimiter=delimiter, strict=True)
        header = [name.strip().strip("`") for name in next(reader)]
        for row in reader:
            if not row:
                continue
            place = f"line {reader.line_num}"
            if len(row) != len(header):
                raise click.UsageError(f"{source}: {place} has {len(row)} values for {len(header)} columns")
            if len(found) == ROWS_MAX:
                raise click.UsageError(f"{source} has more than {ROWS_MAX:,} rows; split it")
            values = [None if value in ("NULL", "\\N") else value for value in row]
            found.append(Document(place, dict(zip(header, values, strict=True))))
    except csv.Error as error:
        raise click.UsageError(f"{source} is not CSV: {error}") from None
    finally:
        csv.field_size_limit(before)
    return found


def _unwrapped(value: dict[str, Any], place: str, depth: int, reading: Reading) -> list[Document]:
    """An answer's `data` instead of the answer, where that is nothing but a wrapper around jobs."""
    for name in _WRAPPERS:
        inner = value.get(name)
        if isinstance(inner, list) and all(isinstance(item, dict) for item in inner):
            _leave(value, name, place, len(inner), reading)
            return [Document(f"item {n}", item) for n, item in enumerate(inner, 1)]
        if isinstance(inner, dict) and depth < 3:
            _leave(value, name, place, None, reading)
            return _unwrapped(inner, place, depth + 1, reading)
    return [Document(place, value)]


def _leave(value: dict[str, Any], inner: str, place: str, count: int | None, reading: Reading) -> None:
    """Notes what an answer says beside its jobs, of which it has so many: that there are more of them, above all."""
    notes = Notes()
    notes.leave(value, (inner, *_TOTALS, *_OF_ANSWERS), "")
    totals = [value[name] for name in _TOTALS if isinstance(value.get(name), int)]
    if count is not None and totals and max(totals) > count:
        notes.ask(f"it has {count} of {max(totals)} jobs: ask for all of them, with a longer page or page by page")
    reading.note(place, notes)
