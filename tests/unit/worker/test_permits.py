"""What a task is held against before it is started."""

from __future__ import annotations

import pytest

from raftsched.core.allowed import Allowed
from raftsched.worker.permits import permitted
from raftsched.worker.runner import RunSpec
from raftsched.worker.tasks import BadJob
from raftsched.worker.wire import Exec, Python, Task


def spec(task: Task) -> RunSpec:
    return RunSpec(token=1, session=1, task=task, timeout_ms=1_000, grace_ms=1_000, stop_ms=None)


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "PERL5LIB", "PERLLIB", "GIT_EXTERNAL_DIFF", "TAR_OPTIONS", "ZDOTDIR", "LUA_INIT", "OPENSSL_CONF"],
)
def test_no_variable_makes_an_allowed_program_run_another_one(name: str) -> None:
    with pytest.raises(BadJob, match=name):
        permitted(spec(Exec(("/opt/jobs/load",), {name: "x"})), Allowed(exec=("/opt/jobs/*",)))


def test_the_process_that_finds_the_function_has_the_rules() -> None:
    given = spec(Python("shop.mail:send", b"", {}))
    task = permitted(given, Allowed(python=("shop.*",))).task
    assert isinstance(task, Python)
    assert task.allowed == ("shop.*",)
    assert permitted(given, Allowed()) is given
