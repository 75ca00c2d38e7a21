"""What the offers of two nodes say of the runs that both can take, one thing that they offer after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, product

import pytest

from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.core.rules.allowed import Allowed
from raftsched.core.rules.eligibility import Offer


def subsets(*of: object) -> list[frozenset[object]]:
    return [frozenset(some) for size in range(len(of) + 1) for some in combinations(of, size)]


MANUAL = Trigger(kind=TriggerKind.MANUAL)
PLAIN = Offer("n1", 1, frozenset(("exec",)), frozenset(), False)
ALLOWED = (None, Allowed(), Allowed(exec=("/bin/*",)), Allowed(exec=("/usr/*",), cwd=("/srv",)))
SSD, ZONE = ("disk", "ssd"), ("zone", "a")

Case = tuple[list[Offer], Iterable[tuple[Policy, str]]]
CASES: dict[str, Case] = {
    "slots": ([replace(PLAIN, slots=slots) for slots in range(3)], [(Policy(trigger=MANUAL), "default")]),
    "handlers": (
        [replace(PLAIN, handlers=some) for some in subsets("exec", "http", "python:a")],
        [(Policy(trigger=MANUAL, required_capability=need), "default") for need in ("", "exec", "http", "python:a")],
    ),
    "labels": (
        [replace(PLAIN, labels=some) for some in subsets(SSD, ZONE)],
        [(Policy(trigger=MANUAL, node_labels=need), "default") for need in ((), (SSD,), (ZONE,), (SSD, ZONE))],
    ),
    "users": (
        [replace(PLAIN, users=some) for some in subsets("default:nobody", "billing:clerk", "billing:")],
        [
            (Policy(trigger=MANUAL, user=user), "billing")
            for user in ("", "billing:nobody", "billing:clerk", "hr:nobody")
        ],
    ),
    "rules": (
        [replace(PLAIN, allowed=rules, restricted=frozenset() if rules is None else rules.kinds) for rules in ALLOWED],
        [
            (Policy(trigger=MANUAL, required_capability="exec", target=target, cwd=cwd), "default")
            for target, cwd in product(("/bin/true", "/usr/bin/true"), ("", "/srv", "/tmp"))
        ],
    ),
    "queues": (
        [replace(PLAIN, queues=some) for some in (None, *subsets("default", "slow"))],
        [(Policy(trigger=MANUAL, queue=queue), "default") for queue in ("default", "slow")],
    ),
    "namespaces": (
        [replace(PLAIN, namespaces=some) for some in (None, *subsets("default", "billing"))],
        [(Policy(trigger=MANUAL), namespace) for namespace in ("default", "billing", "hr")],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_takes_all_of_another_can_take_each_run_that_this_one_can(case: Case) -> None:
    offers, runs = case
    more = 0
    for one, other in product(offers, repeat=2):
        wrong = [run for run in runs if other.can(*run) and not one.can(*run)]
        if one.takes_all_of(other):
            more += one != other
            assert not wrong, f"{one} cannot take {wrong[0]}, which {other} can"
    assert more, "it says so of equal ones alone"
    assert PLAIN.takes_all_of(PLAIN)
