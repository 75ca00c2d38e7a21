"""Breadth-first search of everything that can happen, with the shortest way to what must not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Found:
    states: int
    wrong: str | None  # None: nothing was found
    steps: tuple[str, ...]  # the way there
    whole: bool  # everything within the bounds was looked at, or there is an example


def search(
    start: S, successors: Callable[[S], Iterable[tuple[str, S]]], wrong: Callable[[S], str | None], states_max: int
) -> Found:
    """`successors` returns what may happen next, with words for it."""
    came: dict[S, tuple[S, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for label, after in successors(state):
            if after in came:
                continue
            came[after] = (state, label)
            what = wrong(after)
            if what is not None:
                return Found(len(came), what, _way(came, after), True)
            queue.append(after)
        if len(came) > states_max:
            return Found(len(came), None, (), False)
    return Found(len(came), None, (), True)


def _way(came: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    steps = []
    while (before := came[state]) is not None:
        state, label = before
        steps.append(label)
    return tuple(reversed(steps))
