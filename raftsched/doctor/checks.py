"""The list of all checks, and the finding that each of them makes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from raftsched.quantities import format_duration

State = Literal["ok", "warn", "fail"]
STATES: tuple[State, ...] = ("ok", "warn", "fail")  # from good to bad


@dataclass(frozen=True)
class Check:
    """`asks`: the question that is answered; `why`: what happens where the answer is bad; `see`: the section of the
    documents that says more."""

    asks: str
    why: str
    see: str


@dataclass(frozen=True)
class Finding:
    """The result of one check, and what to do about it."""

    check: str  # one of CHECKS; of a node of another version perhaps one that is not known here
    state: State
    detail: str
    do: str = ""  # empty when all is well
    nodes: tuple[str, ...] = ()  # that it is about
    why: str = ""  # as CHECKS has it unless given
    see: str = ""  # the same

    def __post_init__(self) -> None:
        known = CHECKS.get(self.check)
        if known is not None:
            object.__setattr__(self, "why", self.why or known.why)
            object.__setattr__(self, "see", self.see or known.see)


def worst(findings: Sequence[Finding]) -> State:
    """Returns the state of the worst finding; "ok" of none."""
    return max((finding.state for finding in findings), key=STATES.index, default="ok")


def of_checks(findings: Sequence[Finding], only: Collection[str] = (), skip: Collection[str] = ()) -> list[Finding]:
    """Returns the findings of the checks that are wanted: of `only` (empty: all), without those of `skip`."""
    return [f for f in findings if (not only or f.check in only) and f.check not in skip]


def lasting(ms: int | None) -> str:
    """Returns " for 3d4h", in words that are not longer than they need to be; nothing when it is not known."""
    if ms is None:
        return ""
    unit = next((unit for unit in (3_600_000, 60_000) if ms >= 24 * unit), 1_000)
    return f" for {format_duration(max(unit, ms - ms % unit))}"


_MEMBERS = "docs/runbook.md#members-and-leader"
_SLOW = "docs/runbook.md#slow-disks-and-networks"
_FULL = "docs/runbook.md#disks-that-fill-up"
_CLOCKS = "docs/runbook.md#clocks-that-are-off"
_WAIT = "docs/runbook.md#runs-that-wait"
_FAIL = "docs/runbook.md#runs-that-fail"
_UPGRADING = "docs/upgrading.md#upgrade-a-cluster"
_EXPIRE = "docs/runbook.md#certificates-that-expire"
_MACHINE = "docs/doctor.md#machines"
_LOCAL = "docs/doctor.md#a-node-that-does-not-start"
_OPEN = "docs/doctor.md#who-gets-in"

CHECKS: dict[str, Check] = {
    # ------------------------------------------------------------ members
    "reachable": Check(
        "Does the API of each node answer?",
        "clients are sent from node to node, and a node that does not answer is of no use to them",
        _MEMBERS,
    ),
    "metrics": Check(
        "Do nodes tell their metrics to who asks?",
        "disks, certificates, memory and what happened lately are known by them alone",
        "docs/metrics.md#metrics",
    ),
    "leader": Check("Is there a leader?", "without one nothing is fired, started or accepted", _MEMBERS),
    "quorum": Check(
        "May another member be lost?", "without a majority of the voting members there is no leader", _MEMBERS
    ),
    "members": Check(
        "Does somebody wait to be let in, or catch up?",
        "who is no voting member yet does not help when another one is lost",
        "docs/runbook.md#disks-that-are-lost-or-go-back",
    ),
    "moved": Check(
        "Are members where the members look for them?",
        "who looks for a member in the wrong place waits until that one comes to it",
        "docs/runbook.md#a-nodes-address-that-changes",
    ),
    "elections": Check(
        "Has the leader changed often within 15 minutes?",
        "each change holds everything up for about half a second",
        _MEMBERS,
    ),
    "raft-port": Check(
        "Did nodes refuse connections at the Raft port lately?",
        "a member with a wrong key or certificate is as good as down, and nobody else has business there",
        "docs/runbook.md#refusals-at-the-raft-port",
    ),
    "loop": Check(
        "Does work take turns?",
        "heartbeats, leases and answers of a node wait for the longest piece of work on its event loop",
        "docs/runbook.md#work-that-holds-a-node",
    ),
    "task-faults": Check(
        "Did tasks of nodes meet faults lately?",
        "the node goes on, but what the task was about may not have been done",
        "docs/runbook.md#faults-of-tasks",
    ),
    # ------------------------------------------------------------ versions
    "versions": Check(
        "Have all nodes and workers one version?", "an upgrade that stays half done is never ends well", _UPGRADING
    ),
    "level": Check(
        "May all be used that the newest version brought?",
        "what is of a later level than the cluster's is refused, and each node can still go back to the version before",
        "docs/upgrading.md#the-level-of-the-cluster",
    ),
    "alike": Check(
        "Were all nodes started with the same settings?",
        "after a change of leader the cluster behaves otherwise, and nobody knows why",
        _MACHINE,
    ),
    # ------------------------------------------------------------ log, disks
    "lag": Check("Is a follower far behind?", "it answers old reads, and cannot take over soon", _SLOW),
    "commits": Check("Were entries committed in time lately?", "each request and each start waits for a commit", _SLOW),
    "flushes": Check(
        "Did the log get to the disk in time lately?", "each commit waits for the disks of a majority", _SLOW
    ),
    "log": Check(
        "Is the log compacted?",
        "a log that only grows fills the disk, and is read whole when the node starts",
        _FULL,
    ),
    "disk": Check(
        "Is there room on the disks?", "below 64 MiB a node refuses writes, and with too few others the cluster", _FULL
    ),
    "output-files": Check(
        "Is output there that nodes have not deleted?",
        "what its runs printed can be read from a second copy alone, if there is one",
        "docs/runbook.md#output-that-is-removed",
    ),
    "output-copies": Check(
        "Has output its second copy?",
        "the output of the runs since then is lost with the disk of its node",
        "docs/runbook.md#copies-of-output-that-wait",
    ),
    "output-store": Check(
        "Can nodes use the object store of output?",
        "output has no second copy meanwhile, and what is there cannot be read or goes on costing",
        "docs/runbook.md#copies-of-output-that-wait",
    ),
    "output-shipping": Check(
        "Is output shipped, where nodes are told to?",
        "what is deleted by age or for room before it is shipped never reaches the receiver",
        "docs/runbook.md#output-that-is-not-shipped",
    ),
    "backup": Check(
        "Has somebody kept a backup lately?",
        "what a majority lost, or somebody deleted by mistake, comes back from a backup alone",
        "docs/runbook.md#backups-that-stopped",
    ),
    # ------------------------------------------------------------ machines
    "clocks": Check("Are the nodes' clocks together?", "jobs are due by the leader's clock", _CLOCKS),
    "clock-service": Check(
        "Does a time service keep the clocks right?",
        "a clock that nobody sets drifts by seconds a day, and all nodes may drift together",
        _CLOCKS,
    ),
    "time-zones": Check(
        "Have all nodes the same time zone data?",
        "jobs get their times from the leader's data: by older data they run at other hours where a zone changed",
        "docs/runbook.md#time-zone-data-that-differs",
    ),
    "memory": Check(
        "Is there memory left?",
        "a node that is swapped out or waits for memory misses heartbeats, and the kernel kills what takes most",
        _MACHINE,
    ),
    "open-files": Check("May nodes open enough files?", "each connection, stream and run takes descriptors", _MACHINE),
    "file-system": Check(
        "Do data directories lie on local disks?",
        "LMDB maps its file: on a network file system locks and flushes do not hold, and others go with a restart",
        _MACHINE,
    ),
    "run-limits": Check(
        "Do limits hold for whole runs?",
        "without control groups of their own each process of a run may take its limit of memory",
        _MACHINE,
    ),
    "programs": Check(
        "Do nodes offer programs to jobs, and as whom?",
        "a program that runs as the node's own user reads its keys, and makes who creates jobs an admin",
        _MACHINE,
    ),
    "run-users": Check(
        "Do namespaces run as users of their own?",
        "without control groups processes are counted by user: one namespace can leave the others none",
        _MACHINE,
    ),
    # ------------------------------------------------------------ who gets in
    "access": Check("Do requests need a token?", "whoever may create jobs runs programs on the nodes", _OPEN),
    "plain-http": Check(
        "Is the API spoken by TLS beyond a machine?", "tokens and all that jobs say can be read on the way", _OPEN
    ),
    "tokens": Check("Do tokens expire soon?", "whoever uses one is refused from then on", _OPEN),
    "secrets": Check(
        "Can the node read all secrets?", "runs and webhooks that need such a secret fail on it", "docs/secrets.md"
    ),
    "audit": Check(
        "Does the audit reach back as far as it should?",
        "who asked for what before that is known from exported copies alone",
        "docs/runbook.md#an-audit-that-is-cut-short",
    ),
    "certificates": Check(
        "Do certificates of the API expire soon?", "no client that checks certificates gets through then", _EXPIRE
    ),
    "raft-certificates": Check(
        "Do certificates of members expire soon?", "no member takes such a one: the node is cut off", _EXPIRE
    ),
    # ------------------------------------------------------------ work
    "paused": Check("Is the cluster paused?", "nothing is fired or started", "docs/operations.md#pausing-everything"),
    "queues": Check("Are queues paused?", "their runs wait for as long as that", "docs/queues.md"),
    "workers": Check(
        "Do all nodes start runs?",
        "what others take instead may be too much for them",
        "docs/nodes.md#a-node-that-starts-nothing",
    ),
    "remote-workers": Check(
        "Are remote workers heard of, and start runs?",
        "the runs of one that stays silent are lost, and tried again elsewhere",
        "docs/nodes.md#machines-that-work-without-voting",
    ),
    "placement": Check(
        "Is there a node or worker for every run?",
        "a run that nobody could take waits, and is given up after start_deadline if it recurs",
        "docs/nodes.md#which-node-takes-a-run",
    ),
    "backlog": Check("Does much wait?", "what waits starts late", _WAIT),
    "slots": Check("Are slots left?", "what is due next waits until a run ends", _WAIT),
    "waits": Check("Has a run waited for long?", "it is late, and so is all behind it", _WAIT),
    "late": Check("Were runs made and started in time lately?", "jobs run later than they say", _WAIT),
    "dead-letters": Check("Are there dead letters?", "these runs were given up, and nobody has looked at them", _FAIL),
    "failing": Check(
        "Do most runs of a namespace fail?", "they use slots for nothing, and somebody waits for their work", _FAIL
    ),
    "webhooks": Check(
        "Do webhooks get their notifications?",
        "whoever is to hear of failures does not",
        "docs/runbook.md#webhooks-that-fail",
    ),
    # ------------------------------------------------------------ one machine
    "answers": Check("Did the cluster answer all questions?", "some checks were left out", _MEMBERS),
    "data": Check(
        "Can the data directory be used, by the node alone?", "all that jobs say and all keys are in it", _LOCAL
    ),
    "user": Check(
        "Does all of it belong to a user that is not root?", "a node that is root lets jobs harm the machine", _LOCAL
    ),
    "cluster-key": Check(
        "Can the cluster key be used?", "a node with another key is refused by all", "docs/secrets.md"
    ),
    "room": Check("Is there room on the disk?", "below 64 MiB a node refuses writes", _FULL),
    "address-space": Check("May the node map its store?", "the store is mapped whole, however little is in it", _LOCAL),
    "flush": Check("How long does a flush take?", "each acknowledged write waits for at least two of them", _SLOW),
    "control-groups": Check(
        "Has this user control groups of version 2?",
        "without them limits hold for each process of a run, not for all together",
        "docs/processes.md#limits",
    ),
    "settings": Check("Are the node's settings right?", "with wrong ones it ends with exit code 2", _LOCAL),
    "in-use": Check("Has a node the data directory open?", "a second process on it is refused", _LOCAL),
    "store": Check(
        "Are log and tables whole, and of a format that this version reads?",
        "a node with a damaged log must not take part: what it promised may be gone",
        "docs/runbook.md#disks-that-are-lost-or-go-back",
    ),
    "ports": Check("Are the node's ports free, or its own?", "a node without its ports ends at once", _LOCAL),
    "addresses": Check("Can the members' names be resolved?", "members find each other by them", _LOCAL),
    "tls-files": Check(
        "Do certificates fit their keys, the node and its addresses?",
        "clients and members refuse a certificate that is not for whom they asked",
        _EXPIRE,
    ),
    "killed": Check(
        "Was something killed for its memory?", "the kernel ends what takes most, a node among others", _MACHINE
    ),
    "log-lines": Check("Does the node's log name a known trouble?", "the last lines say why a node ended", _LOCAL),
}
