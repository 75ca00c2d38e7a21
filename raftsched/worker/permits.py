"""A task that is about to be started, held against what this node lets jobs touch.

The leader gives a node only what its announced rules allow; this is the check that counts, for a job may be older than
the rules, and only here links and names are resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from raftsched.clock import Clock
from raftsched.core.allowed import Allowed, run_error
from raftsched.core.model import Attempt, Instance, Job
from raftsched.core.references import find_secret
from raftsched.core.tables import ReadView
from raftsched.security.sealing import Sealer
from raftsched.worker.runner import RunSpec
from raftsched.worker.tasks import BadJob, spec_of
from raftsched.worker.webhook_deliveries import delivery_of
from raftsched.worker.wire import Exec, Http, Mail, Python

SHELL = "/bin/sh"
# With these a job makes an allowed program or interpreter run code of its own choice. Sources: ld.so(8), bash(1),
# python(1), perlrun(1), ruby(1), node(1), zsh(1), lua(1), git(1), tar(1), rsync(1), less(1), openssl-env(7), make(1).
_TAKEN = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "PS4", "IFS", "PATH", "GCONV_PATH", "NODE_OPTIONS", "NODE_PATH", "RUBYOPT"}
    | {"RUBYLIB", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "EDITOR", "VISUAL", "PAGER", "PERLLIB"}
    | {"BASH_LOADABLES_PATH", "ZDOTDIR", "CLASSPATH", "TAR_OPTIONS", "RSYNC_RSH", "LESSOPEN", "LESSCLOSE", "MANPAGER"}
    | {"OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "PHPRC", "PHP_INI_SCAN_DIR", "MAKEFLAGS", "AWKPATH"}
)
_TAKEN_PREFIXES = ("LD_", "PYTHON", "PERL5", "DYLD_", "BASH_FUNC_", "GIT_", "LUA_")


def prepared(
    view: ReadView,
    job: Job,
    instance: Instance,
    attempt: Attempt,
    clock: Clock,
    calls: Mapping[str, str],
    sealer: Sealer | None,
    allowed: Allowed | None,
    run_as: Callable[[str, str], str],
    output_max: int = 0,
) -> RunSpec:
    """Makes the run of an attempt, and holds it against `allowed`. `calls`: this node's handlers by name. `run_as`,
    `output_max`: see spec_of. Raises BadJob."""
    if instance.notice is not None:
        return delivery_of(view, job, instance, attempt, clock.wall_ms(), sealer)
    find = partial(find_secret, view)
    return permitted(spec_of(job, instance, attempt, calls, find, sealer, run_as, output_max), allowed)


def permitted(spec: RunSpec, allowed: Allowed | None) -> RunSpec:
    """The run as the node starts it. Raises BadJob."""
    task = spec.task
    if allowed is None or isinstance(task, (Http, Mail)):  # where a request may go is decided when its host is resolved
        return spec
    if isinstance(task, Exec):
        shell = task.argv[0] == SHELL and len(task.argv) == 3 and task.argv[1] == "-c"
        kind, target, restricted = "exec", task.argv[0], allowed.exec is not None
        if shell and not restricted:
            kind = "shell"
    else:
        kind, target, restricted = "python", task.function, allowed.python is not None
    wrong = run_error(allowed, kind, target, task.cwd or "")
    if wrong is None and restricted:
        wrong = _wrong_in_environment(task)
    if wrong is not None:
        raise BadJob(f"this node {wrong}")
    if isinstance(task, Python) and allowed.python is not None:
        task = replace(task, allowed=allowed.python)  # only where its module is imported is seen what the name leads to
    if task.cwd is not None and allowed.cwd is not None:
        task = replace(task, within=allowed.cwd)
    return spec if task is spec.task else replace(spec, task=task)


def _wrong_in_environment(task: Exec | Python) -> str | None:
    for name in sorted(task.env):
        if name in _TAKEN or name.startswith(_TAKEN_PREFIXES):
            return f"takes no variable {name} from a job: with it an allowed program runs another one"
    return None
