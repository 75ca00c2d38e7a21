"""The users as which a node runs jobs: by namespace, and those that a job may ask for.

Users are looked up once, when the node starts: their ids and groups hold until it starts again.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from raftsched.bounds import SLOTS_MAX
from raftsched.config.runs import RunsConfig
from raftsched.core.rules.allowed import PROGRAMS
from raftsched.core.rules.eligibility import EVERY, may_run_as
from raftsched.core.subjects.cluster import NoPython
from raftsched.errors import Exit, StartupError
from raftsched.worker import native
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.users import User

if TYPE_CHECKING:
    from raftsched.config.node import NodeConfig
    from raftsched.config.worker import WorkerConfig

NOBODY = "nobody"
# Of what is shared: a warning.
SHARED = (
    "%s: without control groups their processes are counted together, and a fork bomb of one makes the runs of the"
    " others fail; give each namespace a user of its own (--run-as NAMESPACE=USER)"
)
_NEEDED = {"CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}  # numbers of capabilities(7)
_NO_SHELLS = ("nologin", "false", "sync", "")


class UnknownUser(Exception):
    """No such user, or a node that may not become it; in words."""


def look_up(name: str) -> User:
    """Raises UnknownUser."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise UnknownUser(f"there is no user {name!r} on this machine") from None
    groups = tuple(sorted(set(os.getgrouplist(name, found.pw_gid))))
    shell = found.pw_shell if os.path.basename(found.pw_shell) not in _NO_SHELLS else "/bin/sh"
    return User(name, found.pw_uid, found.pw_gid, groups, found.pw_dir or "/", shell)


class RunAs:
    """The user as which a job of a namespace runs: by name, "" for the node's own user.

    `run_as`: namespace -> user; `allowed`: namespace -> users that its jobs may ask for beside that one. "default" is
    for each namespace that is named in neither."""

    def __init__(
        self, run_as: Mapping[str, str] | None = None, allowed: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._run_as = dict(run_as or {})
        self._allowed = {namespace: tuple(users) for namespace, users in (allowed or {}).items()}
        self.announced = self._announced()
        self._may = frozenset(self.announced)
        self.users: dict[str, User] = {}  # that are others than the node's own

    def _announced(self) -> tuple[str, ...]:
        """See eligibility.may_run_as."""
        found: set[str] = set()
        for namespace in self._run_as.keys() | self._allowed.keys():
            own = self._run_as.get(namespace, self._run_as.get(EVERY))
            users = {*self._allowed.get(namespace, ()), *([own] if own else [])}
            found |= {f"{namespace}:{user}" for user in users or {""}}
        return tuple(sorted(found))

    def look_up(self) -> None:
        """Finds all users that may be needed. Raises UnknownUser: one is not there, or out of reach."""
        own = os.geteuid()
        for name in sorted({*self._run_as.values(), *(u for users in self._allowed.values() for u in users)}):
            user = look_up(name)
            if user.uid != own:
                self.users[name] = user
        if self.users and (missing := _missing_capabilities()):
            name = next(iter(self.users))
            raise UnknownUser(
                f"this node may not run jobs as {name!r}: it lacks {', '.join(missing)}; start it as root, or with"
                " AmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL in its unit, or as the user that its jobs run as"
                " (--jobs-as-node)"
            )

    def of(self, namespace: str, wanted: str = "") -> str:
        """The user's name, "" for the node's own. Raises UnknownUser: a job of this namespace may not ask for it."""
        if wanted and not may_run_as(self._may, f"{namespace}:{wanted}"):
            raise UnknownUser(f'this node does not run jobs of the namespace {namespace} as the user "{wanted}"')
        name = wanted or self._run_as.get(namespace) or self._run_as.get(EVERY, "")
        return name if name in self.users else ""

    def without(self, unfit: Collection[str]) -> NoPython | None:
        """Returns whose jobs cannot run functions where these users cannot; None: those of nobody can. See
        core.subjects.cluster.NoPython."""
        found, anybody = [], False
        for namespace in sorted({EVERY, *self._run_as, *self._allowed}):
            own = self._run_as.get(namespace, self._run_as.get(EVERY, ""))
            users = {
                "": own,
                **({own: own} if own else {}),
                **{user: user for user in self._allowed.get(namespace, ())},
            }
            cannot = tuple(sorted(said for said, user in users.items() if user in unfit))
            found.append((namespace, cannot))
            anybody = anybody or len(cannot) < len(users)
        if not anybody:
            return None
        return tuple(found) if any(cannot for _, cannot in found) else ()

    def shared(self) -> str | None:
        """Returns whom several namespaces share, in words for a node whose processes are counted by user; None: nobody,
        or only the node's own user, of whom nothing is counted."""
        named = {namespace: user for namespace, user in self._run_as.items() if namespace != EVERY}
        every = self._run_as.get(EVERY)
        found = [
            f"{user} runs jobs of {' and '.join(names)}"
            for user in sorted(self.users)
            if len(names := sorted(n for n, one in named.items() if one == user)) > 1
        ]
        if every in self.users:
            found.append(f"{every} runs jobs of all namespaces that --run-as does not name")
        return "; ".join(found) or None

    @property
    def apart(self) -> bool:
        """Returns whether the jobs of each namespace run as others than the node's own user."""
        named = {*self._run_as.values(), *(user for users in self._allowed.values() for user in users)}
        return EVERY in self._run_as and named <= self.users.keys()

    @property
    def user_text(self) -> str:
        """Returns whose user jobs run as: another one only where those of all namespaces do."""
        return "another user" if self.apart else "the node's user"

    @property
    def words(self) -> str:
        """Says who the jobs run as, for the log."""
        every = self._run_as.get(EVERY) or f"{own_name()}, as the node"
        others = [f"{user} ({namespace})" for namespace, user in sorted(self._run_as.items()) if namespace != EVERY]
        return f"jobs run as {', '.join([every, *others])}"


def _missing_capabilities() -> list[str]:
    """Returns the capabilities that this process lacks to become another user, and to end what runs as another user."""
    status = Path("/proc/self/status").read_text()
    held = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return [name for name, bit in _NEEDED.items() if not held >> bit & 1]


def users_of(runs: RunsConfig, *, own_process: bool) -> RunAs:
    """Makes the users as which a node with this configuration runs jobs. One that is root and nothing else
    (`own_process`) runs them as nobody until it is told otherwise. Raises StartupError."""
    run_as = dict(runs.run_as)
    if own_process and os.geteuid() == 0 and EVERY not in run_as:
        run_as[EVERY] = NOBODY
    found = RunAs(run_as, runs.users_allowed)
    try:
        found.look_up()
    except UnknownUser as why:
        raise StartupError(f"run_as: {why}.", Exit.USAGE) from None
    return found


def offered(executors: Sequence[str], runs: RunsConfig, run_as: RunAs) -> tuple[str, ...]:
    """Returns those of the handlers that jobs are offered. Programs that would run as the node's own user could read
    its keys: they are left out until an operator says that this is meant. Who names root for a node that is root has
    said it: without a name they would be nobody's there."""
    meant = runs.jobs_as_node or run_as.apart or (EVERY in runs.run_as and os.geteuid() == 0)
    return tuple(e for e in executors if e not in PROGRAMS or meant)


def held_back(executors: Sequence[str], found: Sequence[str]) -> str:
    """Returns what is wrong, and what would be right, where `offered` left some out; "": it left none."""
    left = [e for e in executors if e not in found]
    if not left:
        return ""
    return (
        f"{', '.join(left)} {'is' if len(left) == 1 else 'are'} not offered: jobs would run as {own_name()}, the user"
        " of this process, and reach its data and its keys; say --run-as default=USER, of another user, or"
        " --jobs-as-node where that is meant"
    )


def options_of(config: NodeConfig | WorkerConfig, run_as: RunAs, cgroups: str | None) -> Options:
    """Returns what the runner gets. `cgroups`: what cgroup.take returned."""
    return Options(
        **msgspec.structs.asdict(config.runs.options),
        users=tuple(run_as.users.values()),
        pythonpath=tuple(str(path.absolute()) for path in config.pythonpath),
        http_allow=config.allowed.http,
        http_deny=config.allowed.http_deny,
        confine=native.path("confine"),
        cgroups=cgroups,
        python_processes=SLOTS_MAX,  # the leader gives no more runs than the slots that it is told of
        warm_max=config.slots,
    )


def own_name() -> str:
    """Returns the name of the user of this process; its number when it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
