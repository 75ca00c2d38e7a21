"""Has what this program says of its cluster, once for all that it enqueues: from the settings of a web framework.

Variables of the environment win over it, as they win over a file: an operator can send one process elsewhere. It is
asked anew each time, so that settings may come late and change in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from raftsched.client.models import Created
    from raftsched.client.spec_generated import JobSpec

_NAMING = ("RAFTSCHED_SERVER", "RAFTSCHED_CONTEXT")  # variables that name a cluster
VARIABLES = {  # that say who asks, and whom is trusted -> the argument of a client
    "RAFTSCHED_TOKEN": "token",  # nosec B105
    "RAFTSCHED_TOKEN_FILE": "token_file",  # nosec B105
    "RAFTSCHED_CA_FILE": "ca_file",
    "RAFTSCHED_CLIENT_CERT": "client_cert",
    "RAFTSCHED_CLIENT_KEY": "client_key",
}


class Said(NamedTuple):
    """`arguments`: of raftsched.Client. `namespace`: of jobs that say none; None: `default`."""

    arguments: Mapping[str, Any] = {}
    namespace: str | None = None


class StandIn(Protocol):
    """Takes what is enqueued without a client, in tests."""

    def create(self, job: JobSpec) -> Created: ...

    async def acreate(self, job: JobSpec) -> Created: ...


stand_in: StandIn | None = None  # None: the cluster
source: Callable[[], Said] = Said  # gives what is said now; raises what is wrong with it


def arguments(environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the arguments of a client, without those that variables say. Where a variable names the cluster, its
    token and files come from variables, too: those of another cluster would be shown to it."""
    found = dict(source().arguments)
    if any(map(environ.get, _NAMING)):
        return {name: found[name] for name in ("timeout",) if name in found}
    said = {argument for name, argument in VARIABLES.items() if environ.get(name)}
    if said & {"token", "token_file"}:
        said |= {"token", "token_file"}
    return {name: value for name, value in found.items() if name not in said}


def namespace() -> str | None:
    """Returns that of jobs that say none; None: `default`."""
    return source().namespace
