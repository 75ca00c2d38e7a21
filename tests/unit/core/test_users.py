"""As whom a job may ask to run: what nodes announce, and what is said where none may."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.core.rules.eligibility import Offer, lacking, may_run_as

SAID = frozenset(("default:nobody", "billing:svc-billing", "billing:svc-report", "hr:"))
PLAIN = Policy(trigger=Trigger(kind=TriggerKind.MANUAL), required_capability="exec")


@pytest.mark.parametrize(
    ("wanted", "may"),
    [
        ("shop:nobody", True),
        ("default:nobody", True),
        ("shop:svc-billing", False),
        ("billing:svc-report", True),
        ("billing:nobody", False),  # what is said for one namespace stands alone
        ("hr:nobody", False),
        ("bill:svc-billing", False),
        ("shop:root", False),
    ],
)
def test_a_namespace_that_is_named_has_what_is_said_for_it_alone(wanted: str, may: bool) -> None:
    assert may_run_as(SAID, wanted) is may


def test_only_jobs_that_say_a_user_need_one() -> None:
    bare = Offer("n1", 4, frozenset(("exec",)), frozenset(), False)
    able = Offer("n2", 4, frozenset(("exec",)), frozenset(), False, SAID)
    assert bare.can(PLAIN, "default")
    asks = msgspec.structs.replace(PLAIN, user="billing:svc-report")
    assert able.can(asks, "default")
    assert not bare.can(asks, "default")
    assert lacking([bare], asks, "default") == (
        'No node with the handler "exec" may run jobs of the namespace billing as the user "svc-report".'
    )
    elsewhere = msgspec.structs.replace(asks, node_labels=(("disk", "ssd"),))
    assert lacking([bare, able], elsewhere, "default") == (
        'No node with the handler "exec" that may run it as its user carries the label disk=ssd.'
    )
