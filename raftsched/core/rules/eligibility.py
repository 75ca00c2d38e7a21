"""Decides which nodes could take a run, busy or not, and what is missing where none could."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from raftsched.core.model import Condition, ConditionKind, Policy
from raftsched.core.rules.allowed import (
    NO_ENV,
    PROGRAMS,
    Allowed,
    is_closed,
    path_error,
    run_error,
    wrong_in_target,
    wrong_in_url,
)
from raftsched.core.rules.executors import at_start, is_worker
from raftsched.core.rules.hosts import ASCII, Reading
from raftsched.core.subjects.cluster import NodeRule, NoPython, Session
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE

_SHOWN = 5  # names that one text lists


# All of a policy that decides who can take it, and the namespace
Need = tuple[str, tuple[tuple[str, str], ...], str, str, str, str, tuple[str, ...], tuple[Condition, ...], str]


def need_of(policy: Policy, namespace: str) -> Need:
    p = policy
    return p.required_capability, p.node_labels, p.user, p.queue, p.target, p.cwd, p.env, p.conditions, namespace


_FUNCTIONS = frozenset({"python", "call"})
NOT_STARTED = (
    " One whose jobs would run as users who cannot start its Python leaves python and call out, and says so in its log."
)


@dataclass(frozen=True, slots=True)
class Offer:
    """The labels, handlers, users and rules of a node: as it says itself, unless an operator set others."""

    node: str
    slots: int
    handlers: frozenset[str]
    labels: frozenset[tuple[str, str]]
    drained: bool
    users: frozenset[str] = frozenset()
    allowed: Allowed | None = None
    restricted: frozenset[str] = frozenset()  # the handlers that `allowed` has something to say about
    queues: frozenset[str] | None = None  # whose runs it takes; None: of all
    namespaces: frozenset[str] | None = None  # the same
    weight: int = 1
    no_python: NoPython = ()  # whose jobs cannot run functions on it
    delivers: bool = True  # it takes runs of the cluster's own namespace, which have secrets of webhooks
    reading: Reading = ASCII  # of hosts

    @property
    def runs(self) -> bool:
        """Returns whether it runs anything at all: a node may be there to vote alone."""
        return self.slots > 0

    def can(self, policy: Policy, namespace: str) -> bool:
        """It runs jobs, serves the queue and the namespace, has the handler and the labels, may run it as whom it says,
        and may touch what the job names."""
        need = policy.required_capability
        if self.slots <= 0 or (need and need not in self.handlers):
            return False
        if not self.serves(policy.queue, namespace):
            return False
        if policy.user and not may_run_as(self.users, policy.user):
            return False
        if self.no_python and not self.has_python(policy, namespace):
            return False
        if not self.labels.issuperset(policy.node_labels):
            return False
        return not self.looks_at(policy) or self.refusal(policy) is None

    def has_python(self, policy: Policy, namespace: str) -> bool:
        """Returns False for a job with a function of which the user cannot start the node's Python."""
        if policy.required_capability.partition(":")[0] not in _FUNCTIONS:
            return True
        unfit = dict(self.no_python)
        return policy.user.partition(":")[2] not in unfit.get(namespace, unfit.get(EVERY, ()))

    def takes_all_of(self, other: Offer) -> bool:
        """Returns whether it can take each run that the other can. False where that is not plain to see."""
        return (
            self.slots > 0
            and self.handlers >= other.handlers
            and self.labels >= other.labels
            and (not other.users or self.users == other.users)
            and (not self.no_python or self.no_python == other.no_python)
            and (self.allowed is None or self.allowed == other.allowed)
            and (self.queues is None or (other.queues is not None and self.queues >= other.queues))
            and (self.namespaces is None or (other.namespaces is not None and self.namespaces >= other.namespaces))
        )

    def serves(self, queue: str, namespace: str) -> bool:
        """Returns whether it takes runs of this queue and this namespace."""
        if namespace == SYSTEM_NAMESPACE and not self.delivers:
            return False
        return (self.queues is None or queue in self.queues) and (
            self.namespaces is None or namespace in self.namespaces
        )

    @property
    def serves_all(self) -> bool:
        return self.queues is None and self.namespaces is None

    def looks_at(self, policy: Policy) -> bool:
        """Returns whether the node's rules depend on what the job names, beside handler and labels."""
        return self.allowed is not None and (
            policy.required_capability.partition(":")[0] in self.restricted or bool(policy.conditions)
        )

    def refusal(self, policy: Policy) -> str | None:
        """Why the node does not touch what the job names, as the end of a sentence; None: it does."""
        if self.allowed is None:
            return None
        return _refusal(self.allowed, policy, is_closed(self.allowed, self.handlers), self.reading)


# Of a session that was opened before the level of variables (core.levels, SPARING) its rules are not known.
NOT_ANNOUNCED = "; where it is said, it was announced before the level of the cluster was 6: start it once more"


def _refusal(allowed: Allowed, policy: Policy, closed: bool, reading: Reading) -> str | None:
    """Why a node with these rules does not run a job with this policy, as the end of a sentence that begins with the
    node; None: it does, as far as can be told without resolving names."""
    kind = policy.required_capability.partition(":")[0]
    if kind in ("http", DELIVER):
        wrong = wrong_in_target(allowed, policy.target, reading)
        if wrong is not None:
            return wrong
    else:
        wrong = run_error(allowed, kind, policy.target, policy.cwd, policy.env, closed=closed)
        if wrong is not None:
            return wrong + NOT_ANNOUNCED if wrong.endswith(NO_ENV) else wrong
    for condition in policy.conditions:
        if condition.kind is ConditionKind.HTTP:
            wrong = wrong_in_url(allowed, condition.target, reading)
        elif condition.kind is ConditionKind.PATH:
            wrong = path_error(allowed, condition.target)
        else:
            continue
        if wrong is not None:
            return wrong
    return None


def slots_of(session: Session | None, rule: NodeRule) -> int:
    """Returns the slots that hold: no rule makes a node run that only votes."""
    if session is None:
        return rule.slots or 0
    return session.slots if rule.slots is None or not session.slots else rule.slots


DELIVER = (
    "deliver"  # what nodes can that have the handler http, and no remote worker: requests with secrets of webhooks
)


def _restricted(allowed: Allowed | None, handlers: frozenset[str]) -> frozenset[str]:
    if allowed is None:
        return frozenset()
    return allowed.kinds | {"call"} if is_closed(allowed, handlers) else allowed.kinds


def offer(session: Session, rule: NodeRule, *, workers_deliver: bool = False, reading: Reading = ASCII) -> Offer:
    """`workers_deliver`: as apply has it in a cluster of a level below NODES_DELIVER (core.levels). `reading`: of
    hosts, as apply has it."""
    handlers = frozenset(session.handlers)
    if "http" in handlers and not is_worker(session.node):
        handlers |= {DELIVER}
    return Offer(
        session.node,
        slots_of(session, rule),
        handlers,
        frozenset(session.labels if rule.labels is None else rule.labels),
        rule.drained,
        frozenset(session.users),
        session.allowed,
        _restricted(session.allowed, handlers),
        None if session.queues is None else frozenset(session.queues),
        None if session.namespaces is None else frozenset(session.namespaces),
        session.weight,
        session.no_python,
        workers_deliver or not is_worker(session.node),
        reading,
    )


# Whether it was meant that programs are left out is not announced.
HELD_BACK = (
    "One whose jobs would run as its own user leaves shell, exec and python out until --run-as default=USER names"
    " another, and says so in its log."
)
EVERY = "default"  # of users: for each namespace that the node does not name


def may_run_as(users: Collection[str], wanted: str) -> bool:
    """Returns whether jobs may ask for this user, given as a namespace and a user with ":" between. `users`: what a
    node announces, in the same form; what it says for one namespace stands alone, and "default" is for all that it does
    not name."""
    if wanted in users:
        return True
    namespace, _, user = wanted.partition(":")
    return f"{EVERY}:{user}" in users and not any(one.startswith(f"{namespace}:") for one in users)


def lacking(offers: Sequence[Offer], policy: Policy, namespace: str) -> str:
    """Why none of these could take it, busy or not: a sentence."""
    if not offers:
        return "No node has an open session: no worker is connected to the leader, or all have only just started."
    offers = [o for o in offers if o.runs]
    if not offers:
        return "All nodes were started with --no-run, and no remote worker is connected."
    need = policy.required_capability
    kind = "node or worker" if any(is_worker(o.node) for o in offers) else "node"
    handled = [o for o in offers if not need or need in o.handlers]
    if not handled:
        said = f'No {kind} has the handler "{need}".'
        if need in PROGRAMS:
            said += " Start a worker or a node that has it in its --executors."
        if need == "python":
            said += NOT_STARTED
        held_back = need in PROGRAMS and not all(PROGRAMS & o.handlers for o in offers)
        return f"{said} {HELD_BACK}" if held_back else said
    who = f'{kind} with the handler "{need}"' if need else kind
    handled = [o for o in handled if o.serves(policy.queue, namespace)]
    if not handled and namespace == SYSTEM_NAMESPACE:
        return 'Events are delivered by nodes, not by remote workers, and no node has the handler "http".'
    if not handled:
        return f"No {who} takes runs of the queue {policy.queue} in the namespace {namespace}."
    if policy.user:
        handled = [o for o in handled if may_run_as(o.users, policy.user)]
        if not handled:
            namespace, _, user = policy.user.partition(":")
            return f'No {who} may run jobs of the namespace {namespace} as the user "{user}".'
        who = f"{who} that may run it as its user"
    handled = [o for o in handled if o.has_python(policy, namespace)]
    if not handled:
        return f"No {who} can start its Python as the user of this job; its log says why."
    fitting = [o for o in handled if o.labels.issuperset(policy.node_labels)]
    if fitting:  # of these each refuses: else one could
        return " ".join(f"{at_start(o.node)} {o.refusal(policy)}." for o in fitting[:_SHOWN])
    missing = [f"{k}={v}" for k, v in policy.node_labels if all((k, v) not in o.labels for o in handled)]
    if missing:
        return f"No {who} carries the label {_some(missing, ' nor ')}."
    wanted = _some((f"{k}={v}" for k, v in policy.node_labels), " and ")
    return f"No {who} carries all of the labels {wanted} together."


def _some(names: Iterable[str], joint: str) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN
    return joint.join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
