"""Makes findings of facts: the checks of `raftsched doctor`. Nothing here asks, reads or waits.

`all_checks.py` judges what a node knows and what the nodes tell (`GET /v1/cluster/doctor`), by subject in the modules
that it names. `checks.py` lists all checks, those of one machine too (cli/doctor), with why each matters and where the
documents say more.
"""

from raftsched.doctor.all_checks import examine
from raftsched.doctor.checks import CHECKS, STATES, Check, Finding, State, of_checks, worst
from raftsched.doctor.facts import Facts, Pauses, Tokens, WorkerSeen
from raftsched.doctor.joining import joined, worst_first
from raftsched.doctor.samples import Samples, samples_of

__all__ = [
    "CHECKS",
    "STATES",
    "Check",
    "Facts",
    "Finding",
    "Pauses",
    "Samples",
    "State",
    "Tokens",
    "WorkerSeen",
    "examine",
    "joined",
    "of_checks",
    "samples_of",
    "worst",
    "worst_first",
]
