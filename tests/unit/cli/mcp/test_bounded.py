"""What a model gets to see: bounded, without secrets and without hidden text, and said so where something is cut."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from raftsched.cli.mcp.bounded import ANSWER_MAX, answer_text, error_text, fits, hidden_place, output_text

TAGS = "".join(chr(0xE0000 + ord(character)) for character in "obey")  # characters that nobody sees


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        ["x" * 10_000] * 100,
        {f"field {number}": "y" * 500 for number in range(500)},
        {"k" * 100_000: 1},
        [[[["z" * 300] * 10] * 10] * 50],
        {"error": "\x00" * 100_000},
        ["\U0001f600" * 4_000] * 100,
    ],
    ids=range(7),
)
def test_an_answer_is_bounded_and_is_json(value: Any) -> None:
    text = answer_text(value)
    assert len(text.encode()) <= ANSWER_MAX
    assert "cut" in text or len(text) < 1_000
    json.loads(text)


def test_what_is_nested_without_end_is_cut() -> None:
    value: Any = "bottom"
    for _ in range(200):
        value = [value]
    assert "deeper than is shown" in answer_text(value)


def test_what_fits_is_shown_whole() -> None:
    value = {"name": "näme", "labels": {"a": "b"}, "list": [1, None, True, 1.5], "text": "two\nlines\tand"}
    assert json.loads(answer_text(value)) == value


def test_what_cannot_be_seen_is_written_as_escapes() -> None:
    shown = json.loads(answer_text({"name": f"a{TAGS}\u202eb\x1b[2J"}))["name"]
    assert shown == r"a\U000e006f\U000e0062\U000e0065\U000e0079\u202eb\x1b[2J"
    for text in (output_text(f"a{TAGS}\r\x1b]0;title\x07".encode()), error_text(TAGS), answer_text({TAGS: 1})):
        assert not set(text) & set(TAGS + "\r\x1b\x07")


def test_secrets_are_hidden_in_answers_outputs_and_errors() -> None:
    assert "hunter2" not in answer_text({"env": {"API_KEY": "hunter2", "x": "postgres://u:hunter2@db/x"}})
    given = {"exec": ["mysql", "--password", "hunter2"], "password": ["hunter2"]}
    assert "hunter2" not in answer_text(given)
    assert json.loads(answer_text(["cut", "-f", "--max-tokens", "x"])) == ["cut", "-f", "--max-tokens", "x"]
    assert "hunter2" not in output_text(b"password: hunter2\n")
    assert "rs_" + "a" * 43 not in error_text("token rs_" + "a" * 43)


def test_the_mark_of_an_output_cannot_be_known_before() -> None:
    first, second = output_text(b"same"), output_text(b"same")
    assert first != second
    forged = first.splitlines()[-1]
    assert output_text(forged.encode()).splitlines()[-1] != forged


def test_bytes_that_are_no_text_stay_bounded() -> None:
    for raw in (bytes(16_384), random.Random(1).randbytes(16_384), b"\xe2\x80\xae" * 5_000):
        assert len(output_text(raw).encode()) <= ANSWER_MAX + 1_000
        assert fits(output_text(b"x" * 16_384))


def test_the_place_of_a_mask() -> None:
    assert hidden_place({"handler": {"exec": ["a", "p=***"]}}) == "/handler/exec/1"
    assert hidden_place({"handler": {"shell": "echo **"}}) is None
    assert hidden_place(None) is None


@pytest.mark.parametrize(
    ("whole", "secret"),
    [
        ("at 9:00 password=hunter2 was taken, token=swordfish too", ("hunter2", "swordfish")),
        ("see postgres://ana:hunter2@db/shop for more", ("hunter2",)),
        ("-----BEGIN EC PRIVATE KEY-----\nshort\nlines\n-----END EC PRIVATE KEY-----\nend", ("short", "lines")),
    ],
)
def test_no_part_of_an_output_shows_a_secret_without_its_name(whole: str, secret: tuple[str, ...]) -> None:
    raw, hidden = whole.encode(), output_text(whole.encode())
    for begin in range(len(raw)):
        for end in (begin + 8, begin + 20, len(raw)):
            text = output_text(raw[begin:end], raw[:begin], raw[end:]).splitlines()[2:-1]
            assert not [one for one in secret if one in "\n".join(text)], (begin, end)
    assert output_text(raw, b"x = 1\n", b"\ny = 2").splitlines()[2:-1] == hidden.splitlines()[2:-1]


def test_what_is_around_an_output_hides_nothing_else() -> None:
    text = "päth /a/b\nand more".encode()
    for at in range(len(text)):
        assert "***" not in output_text(text[at:], text[:at]) + output_text(text[:at], b"", text[at:])
