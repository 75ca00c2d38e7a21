"""What of a request's body goes to the audit: no secret, nothing long, and JSON that is written alike everywhere."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.api.auth.noted import BODY_MAX, change_of
from raftsched.core.subjects.access import CHANGE_MAX

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
)


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ({"value": "hunter2", "shared": True}, {"shared": True, "value": "***"}),
        ({"url": "https://a/", "headers": {"X-Key": "hunter2"}}, {"headers": {"X-Key": "***"}, "url": "https://a/"}),
        ({"handler": {"exec": ["a"]}, "params": {"p": 1}, "n": 3}, {"handler": "***", "params": "***", "n": 3}),
        ({"defaults": {"handler": {"env": {"A": "hunter2"}}}}, {"defaults": {"handler": "***"}}),
        ({"a": [{"secret": "hunter2"}, {"env": {"B": "hunter2"}}]}, {"a": [{"secret": "***"}, {"env": {"B": "***"}}]}),
        ({"env": ["hunter2"]}, {"env": "***"}),
        ({"c": [{"http": "https://h/a?token=hunter2"}]}, {"c": [{"http": "https://h/a?***"}]}),
        ({"url": "https://hooks.slack.com/services/hunter2"}, {"url": "https://hooks.slack.com/***"}),
        ({"url": "https://h?k=hunter2/x"}, {"url": "https://h?***"}),
        ({"url": "hunter2"}, {"url": "***"}),
        ({"smtp": {"user": "hunter2", "password": "hunter2", "port": 1}},
         {"smtp": {"user": "***", "password": "***", "port": 1}}),
        ({"a": 1.5, "b": 2**60}, {"a": "1.5", "b": str(2**60)}),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(body: object, noted: object) -> None:
    raw = change_of(json.dumps(body).encode())
    assert json.loads(raw) == noted
    assert b"hunter2" not in raw


@pytest.mark.parametrize(
    "body", [None, b"", b"[1]", b"3", b"{", b'{"a": "\xff"}', b"{" * 20_000, b"{" + b" " * BODY_MAX + b"}"]
)
def test_what_is_no_object_is_left_out(body: bytes | None) -> None:
    assert change_of(body) == b""


def test_of_long_ones_the_names_are_kept() -> None:
    assert json.loads(change_of(json.dumps({f"f{i}": "x" * 100 for i in range(20)}).encode()))["fields"][0] == "f0"
    assert change_of(json.dumps({f"{i}" * 200: i for i in range(1_000, 1_100)}).encode()) == b""


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=5))
def test_others_write_it_alike(body: dict[str, object]) -> None:
    try:
        sent = msgspec.json.encode(body)
    except (UnicodeEncodeError, OverflowError):
        return
    raw = change_of(sent)
    assert len(raw) <= CHANGE_MAX
    if raw:
        again = json.dumps(json.loads(raw), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        assert again.encode() == raw
