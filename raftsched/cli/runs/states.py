"""States as people say them, and the option --state of lists: one or several, repeated or separated by commas, in any
case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])
_OVER, _TOLD = "EXPIRED", "FINISHED"  # a job that is over, as the API and as people call it


def told_state(state: str) -> str:
    """Returns a state of a job as people are told it."""
    return _TOLD if state == _OVER else state


def job_state(job: Mapping[str, Any]) -> str:
    """Returns the state of a job as people are told it."""
    return told_state(str(job["state"]))


def meant_state(said: str) -> str:
    """Returns a state, in any case, as the API has it."""
    state = said.strip().upper()
    return _OVER if state == _TOLD else state


def state_option(known: Sequence[str], words: str = "In one of these states; may be repeated.") -> Callable[[_F], _F]:
    """Gives the command `state`: the states as the API takes them, "A,B", or None when none was named."""

    def joined(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
        states = [meant_state(state) for some in given for state in some.split(",")]
        for state in states:
            if state not in known:
                told = ", ".join(map(told_state, known))
                raise click.BadParameter(f"{told_state(state)!r} is no state; use one or more of {told}")
        return ",".join(dict.fromkeys(states)) or None

    def completions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.upper().rpartition(",")
        return [before + comma + state for state in map(told_state, known) if state.startswith(last)]

    return click.option(
        "--state", metavar="STATE[,STATE]", multiple=True, callback=joined, shell_complete=completions, help=words
    )
