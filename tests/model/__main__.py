"""python -m tests.model: searches further than the tests do, and prints the way to what each rule prevents."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import fields

from tests.model import lease, sessions
from tests.model.search import Found

LEASE = lease.Bounds(ttl=3, time=9, states=8_000_000)
SESSIONS = sessions.Bounds(log=7, openings=3, tokens=3, messages=8, states=8_000_000)


def _tell(name: str, explore: Callable[[], Found]) -> Found:
    began = time.monotonic()
    found = explore()
    said = found.wrong or ("nothing, and that is all" if found.whole else "nothing so far")
    print(f"{name:24} {found.states:9} states {time.monotonic() - began:6.1f} s  {said}", flush=True)
    for step in found.steps:
        if not step.endswith(": tick"):
            print(f"{'':26}{step}")
    return found


def main() -> int:
    def of_lease(out: dict[str, bool]) -> Found:
        return lease.explore(lease.Rules(**out), LEASE)

    def of_sessions(out: dict[str, bool]) -> Found:
        return sessions.explore(sessions.Rules(**out), SESSIONS)

    good = True
    models: Iterable[tuple[type, Callable[[dict[str, bool]], Found]]]
    models = ((lease.Rules, of_lease), (sessions.Rules, of_sessions))
    for rules, explore in models:
        good &= _tell("all rules", lambda explore=explore: explore({})).wrong is None  # type: ignore[misc]
        for rule in fields(rules):
            _tell(f"no {rule.name}", lambda explore=explore, rule=rule: explore({rule.name: False}))  # type: ignore[misc]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
