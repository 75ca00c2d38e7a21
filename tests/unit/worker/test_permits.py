"""What a task is held against before it is started."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from raftsched.core.rules.allowed import Allowed, is_closed
from raftsched.worker.processes.runner import RunSpec
from raftsched.worker.processes.wire import Exec, Python, Task
from raftsched.worker.tasks.permits import permitted
from raftsched.worker.tasks.tasks import BadJob


def spec(task: Task) -> RunSpec:
    return RunSpec(token=1, session=1, task=task, timeout_ms=1_000, grace_ms=1_000, stop_ms=None)


# Some by which a program runs other code or gives its secrets away: more are known each year than any list names.
VARIABLES = [
    *("LD_PRELOAD", "PERL5LIB", "PERLLIB", "GIT_EXTERNAL_DIFF", "TAR_OPTIONS", "ZDOTDIR", "LUA_INIT", "OPENSSL_CONF"),
    *("GNUMAKEFLAGS", "MAKEFILES", "JAVA_HOME", "HOME", "BASH_ENV", "MAKEFLAGS"),
    *("RESTIC_PASSWORD_COMMAND", "VIMINIT", "DOTNET_STARTUP_HOOKS", "https_proxy", "SSL_CERT_FILE", "KUBECONFIG"),
    *("XDG_CONFIG_HOME", "RAFTSCHED_SERVER", "SOMETHING_THAT_NOBODY_KNOWS"),
]
NEVER = [
    *("HOME", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "BORG_PASSCOMMAND", "MAKEFILES"),
    *("HOSTALIASES", "LOCALDOMAIN", "MALLOC_TRACE", "NIS_PATH", "RES_OPTIONS", "PSQLRC", "HGRCPATH", "LESS"),
    *("ANSIBLE_CONFIG", "ELECTRON_RUN_AS_NODE", "GEM_HOME", "BUNDLE_GEMFILE", "R_PROFILE_USER", "ERL_FLAGS"),
    *("MANAGER_PAGER", "SUDO_EDITOR", "SBT_OPTS", "RUSTC_WRAPPER", "GIO_EXTRA_MODULES", "GEDIT_PLUGIN_PATH"),
]
ANY_PROGRAM = Allowed(exec=("/opt/jobs/*",), python=("shop.*",))


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize(
    "task", [Exec(("/opt/jobs/load",), {}), Python("shop.mail:send", b"", {})], ids=lambda task: type(task).__name__
)
def test_a_job_sets_no_variable_of_an_allowed_program(task: Task, name: str) -> None:
    assert isinstance(task, Exec | Python)
    with pytest.raises(BadJob, match=f'takes no variable "{name}" from a job'):
        permitted(spec(replace(task, env={name: "x"})), ANY_PROGRAM)


@pytest.mark.parametrize("name", NEVER)
def test_some_are_never_taken_whatever_a_pattern_matches(name: str) -> None:
    with pytest.raises(BadJob, match=f'"{name}" from a job, whatever env_allow names'):
        permitted(spec(Exec(("/opt/jobs/load",), {name: "x"})), replace(ANY_PROGRAM, env=("*",)))


def test_those_that_the_operator_names_are_taken_and_what_a_run_is_told_of_itself() -> None:
    run_env = {"RAFTSCHED_JOB_ID": "1"}
    env = {"APP_DAY": "3", "TZ": "UTC", "RAFTSCHED_PARAMS": "{}", "RAFTSCHED_REPORT_FILE": "/dev/fd/3", **run_env}
    for task in (Exec(("/opt/jobs/load",), env), Python("shop.mail:send", b"", env)):
        given = replace(spec(task), run_env=run_env)
        found = permitted(given, replace(ANY_PROGRAM, env=("APP_*", "TZ"))).task
        assert isinstance(found, Exec | Python)
        assert found.env == env
        with pytest.raises(BadJob, match='"TZ" from a job: env_allow names APP_'):
            permitted(given, replace(ANY_PROGRAM, env=("APP_*",)))


def test_room_for_temporary_files_is_the_operators_to_allow() -> None:
    given = spec(Exec(("/opt/jobs/load",), {"TMPDIR": "/srv/tmp", "FEATURE_FLAGS": "a"}))
    assert permitted(given, replace(ANY_PROGRAM, env=("TMPDIR", "*_FLAGS"))) is given
    with pytest.raises(BadJob, match='"FEATURE_FLAGS"'):
        permitted(given, ANY_PROGRAM)


def test_handlers_by_name_take_none_where_jobs_name_no_programs() -> None:
    """A handler may start programs, and would be another user's hand where it runs as the node's."""
    given = spec(Python("shop.mail:send", b"", {"GNUMAKEFLAGS": "x"}))
    assert permitted(given, Allowed()) is given
    with pytest.raises(BadJob, match='takes no variable "GNUMAKEFLAGS"'):
        permitted(given, Allowed(), closed=True)


def test_handlers_by_name_take_none_where_jobs_name_only_chosen_programs() -> None:
    given = spec(Python("shop.mail:send", b"", {"APP_DAY": "x"}))
    for allowed, handlers, taken in (
        (Allowed(exec=("/opt/jobs/*",)), ("exec", "call", "http"), False),
        (Allowed(exec=("/opt/jobs/*",)), ("exec", "python", "call"), True),
        (Allowed(), ("exec", "call"), True),
    ):
        closed = is_closed(allowed, handlers)
        if taken:
            assert permitted(given, allowed, closed=closed) is given
        else:
            with pytest.raises(BadJob, match='takes no variable "APP_DAY" from a job: it has no env_allow'):
                permitted(given, allowed, closed=closed)


def test_programs_that_nothing_restricts_have_all_variables() -> None:
    given = spec(Exec(("/opt/jobs/load",), {"PATH": "/x"}))
    assert permitted(given, Allowed(python=("shop.*",))) is given
    shell = spec(Exec(("/bin/sh", "-c", "true"), {"PATH": "/x"}))
    assert permitted(shell, Allowed(python=("shop.*",))) is shell


def test_the_process_that_finds_the_function_has_the_rules() -> None:
    given = spec(Python("shop.mail:send", b"", {}))
    task = permitted(given, Allowed(python=("shop.*",))).task
    assert isinstance(task, Python)
    assert task.allowed == ("shop.*",)
    assert permitted(given, Allowed()) is given
