"""Lists of which only some fields are wanted: `?fields=id,name` renders no others, and computes no others."""

from __future__ import annotations

from collections.abc import Collection

from raftsched.api.http.requests import Query, bad_parameter


def wanted_fields(query: Query, known: Collection[str]) -> tuple[str, ...] | None:
    """Returns the fields that ?fields names; None: all. Raises Problem invalid-parameter."""
    text = query.text("fields")
    if text is None:
        return None
    given = tuple(dict.fromkeys(text.split(",")))
    unknown = [name for name in given if name not in known]
    if unknown:
        raise bad_parameter(
            "fields", f"names {unknown[0][:64]!r}; it lists, with commas between them, any of {', '.join(known)}"
        )
    return given
