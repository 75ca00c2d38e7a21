"""The registry of commands: numbers are for good, and each command has its handler."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.core import commands as c
from raftsched.core.apply.dispatch import HANDLERS

# Every number there ever was. New ones are added; none is taken out, even when nobody proposes its command any more.
NUMBERS = {
    *range(1, 18),
    *range(20, 29),
    *range(30, 35),
    *range(40, 45),
    50,
    53,
    54,
    *range(60, 63),
    65,
    66,
    *range(70, 73),
    *range(80, 84),
    *range(90, 95),
    *range(100, 106),
    109,
    110,
    122,
    130,
    131,
    140,
    150,
    151,
    170,
    171,
    *range(180, 183),
    191,
}


def test_numbers_stay() -> None:
    assert set(c.COMMANDS) == NUMBERS
    assert list(c.COMMANDS) == sorted(NUMBERS)


@pytest.mark.parametrize("number", c.COMMANDS)
def test_a_command_has_its_number_and_a_handler(number: int) -> None:
    kind, handler = c.COMMANDS[number]
    assert kind.__struct_config__.tag == number
    assert kind.__struct_config__.array_like
    assert HANDLERS[kind].__name__ == handler.partition(".")[2]


def test_what_has_no_number_of_these_is_no_command() -> None:
    with pytest.raises(c.UNDECODABLE):
        c.decode(msgspec.msgpack.encode([18]))
