"""The parts in C: how they are built, and what the one that starts programs does and refuses."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import hatch_build
from raftsched.worker import native
from raftsched.worker.executors import starting
from raftsched.worker.executors.confined import Confined, NoNativePart, start_natively
from raftsched.worker.processes.options import Options
from raftsched.worker.processes.wire import Exec, Limits
from scripts import build
from tests.support.modules import ROOT

CHECKOUT = ROOT.parent
STRICT = ("-Werror", "-Wpedantic", "-Wconversion", "-Wshadow")
needs_compiler = pytest.mark.skipif(hatch_build.compiler() is None, reason="no C compiler")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what a wheel is built from, without what was built in the checkout."""
    place = tmp_path / "source"
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, place / name)
    shutil.copytree(CHECKOUT / "deploy" / "systemd", place / "deploy" / "systemd")
    for name in ("version.py", "worker/native/__init__.py"):
        (place / "raftsched" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / "raftsched" / name)
    for file in (ROOT / "worker" / "native").glob("*.c"):
        shutil.copy(file, place / "raftsched" / "worker" / "native")
    return place


def members(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as packed:
        return [name for name in packed.namelist() if "/native/" in name]


@needs_compiler
def test_a_wheel_has_what_was_built_and_says_for_which_machines(source: Path, tmp_path: Path) -> None:
    (wheel,) = build.packages(source, tmp_path, 0, "wheel")
    assert f"-py3-none-linux_{os.uname().machine}" in wheel.name
    assert {f"raftsched/worker/native/{name}" for name in hatch_build.PARTS} < set(members(wheel))
    with zipfile.ZipFile(wheel) as packed:
        assert packed.getinfo("raftsched/worker/native/confine").external_attr >> 16 & 0o111 == 0o111
    assert not [name for name in members(wheel) if name.endswith(".c")]


def test_without_a_compiler_the_wheel_is_python_alone(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (wheel,) = build.packages(source, tmp_path, 0, "wheel")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert members(wheel) == ["raftsched/worker/native/__init__.py"]


def test_the_sdist_has_the_sources_and_their_builder(source: Path, tmp_path: Path) -> None:
    (sdist,) = build.packages(source, tmp_path, 0, "sdist")
    with tarfile.open(sdist) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert "hatch_build.py" in names
    assert {f"raftsched/worker/native/{Path(name).with_suffix('.c')}" for name in hatch_build.PARTS} <= names
    assert not {f"raftsched/worker/native/{name}" for name in hatch_build.PARTS} & names


@needs_compiler
def test_they_are_built_without_warnings_in_each_way(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, attempts in hatch_build.PARTS.items():
        for flags in attempts:
            (source / hatch_build.PLACE / name).unlink(missing_ok=True)
            monkeypatch.setattr(hatch_build, "PARTS", {name: (flags,)})
            assert [file.name for file in hatch_build.build(source, *STRICT)] == [name], flags


@needs_compiler
def test_what_an_older_source_made_does_not_stay(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made, *_) = hatch_build.build(source)
    made.with_suffix(".c").write_text("no C\n")
    os.utime(made, ns=(0, 0))
    assert made not in hatch_build.build(source)
    assert not made.exists()
    assert "is not built" in capsys.readouterr().err


def test_what_is_not_there_has_no_path() -> None:
    assert native.path("nothing") is None


# ---------------------------------------------------------------- confine


def confine(*arguments: str, **env: str) -> tuple[str, str]:
    """Runs it, for a program with this environment. Returns what the program printed, and what is reported."""
    program = native.path("confine")
    if program is None:
        pytest.skip("it is not built here: .venv/bin/python hatch_build.py")
    told, tells = os.pipe()
    try:
        tells_high = fcntl.fcntl(tells, fcntl.F_DUPFD, 10)
        done = subprocess.run(
            [program, str(tells_high), *arguments],
            env={f"+{name}": value for name, value in env.items()},
            pass_fds=(tells_high,),
            capture_output=True,
            text=True,
            check=False,
        )
        os.close(tells_high)
        os.close(tells)
        tells = -1
        return done.stdout, os.read(told, 4096).decode()
    finally:
        os.close(told)
        if tells >= 0:
            os.close(tells)


def test_the_environment_is_for_the_program_alone() -> None:
    said, wrong = confine("--", "env", PATH=os.defpath, A="1", LD_SHOW_AUXV="1")
    assert wrong == ""
    found = said.split()
    assert found[-3:] == [f"PATH={os.defpath}", "A=1", "LD_SHOW_AUXV=1"]
    assert len([line for line in found if line == "AT_UID:"]) == 1, "the loader of the program alone heeds it"


def test_limits_are_no_higher_than_what_holds() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said, _ = confine("limit", f"{resource.RLIMIT_NOFILE}:{hard + 1}:{hard + 1}", "--", "sh", "-c", "ulimit -Hn")
    assert int(said) == hard
    said, _ = confine("limit", f"{resource.RLIMIT_NOFILE}:20:30", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn")
    assert said.split() == ["20", "30"]


@pytest.mark.parametrize(
    ("arguments", "report"),
    [
        (("--", "no-such-program"), "missing 2"),
        (("--", "/no/such"), "exec 2"),
        (("cwd", "/no/such", "--", "true"), "cwd 2"),
        (("cwd", "/usr", "within", "/usrs", "--", "true"), "within 1 /usr"),
        (("cwd", "/usr", "within", "", "--", "true"), "within 1 /usr"),
        (("group", "/no/such", "--", "true"), "group 2"),
        (("unknown", "1", "--", "true"), "options 22"),
        (("limit", "7:x:1", "--", "true"), "options 22"),
        (("user", "4294967296:1:", "--", "true"), "options 22"),
        (("user", "1:4294967295:", "--", "true"), "options 22"),
        (("user", "1:1:2,4294967296", "--", "true"), "options 22"),
        (("nice", "-5", "--", "true"), "options 22"),
        (("nice", "5"), "options 22"),
        (("--",), "options 22"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_reported_and_nothing_begins(arguments: tuple[str, ...], report: str) -> None:
    said, wrong = confine(*arguments)
    assert said == ""
    assert wrong.startswith(report)


def test_a_script_without_its_interpreter_and_a_file_that_may_not_run(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    path = str(tmp_path)
    assert confine("--", "script", PATH=path)[1].startswith("denied")
    script.chmod(0o755)
    assert confine("--", "script", PATH=path)[1].startswith(f"interpreter {errno.ENOENT}")
    script.write_text("neither\n")
    assert confine("--", "script", PATH=path)[1].startswith(f"exec {errno.ENOEXEC}")


def test_a_working_directory_is_judged_with_its_links_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    inside = ("within", str(tmp_path / "in"), "--", "pwd")
    assert confine("cwd", str(tmp_path / "in"), *inside)[0] == f"{tmp_path}/in\n"
    assert confine("cwd", str(tmp_path / "in" / "link"), *inside) == ("", f"within 1 {tmp_path}/out")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_it_becomes_the_user_for_good_with_nothing_of_root_s() -> None:
    shows = "grep -E '^(Uid|Gid|Groups|Cap[IPEA])' /proc/self/status; ulimit -Hc"
    said, wrong = confine("user", "65534:65533:65533,7", "--", "sh", "-c", shows)
    assert wrong == ""
    found = dict(line.split(":") for line in said.splitlines()[:-1])
    assert found.pop("Uid").split() == ["65534"] * 4
    assert found.pop("Gid").split() == ["65533"] * 4
    assert found.pop("Groups").split() == ["7", "65533"]
    assert {int(held, 16) for held in found.values()} == {0}
    assert said.splitlines()[-1] == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_program_is_looked_for_as_its_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    shutil.copy("/bin/true", tmp_path / "mine")
    assert confine("--", "mine", PATH=str(tmp_path))[1] == ""
    assert confine("user", "65534:65534:", "--", "mine", PATH=str(tmp_path))[1].startswith("missing")
    said, _ = confine("user", "65534:65534:", "home", "/", "--", "pwd")
    assert said


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOENT, errno.ENOEXEC])
def test_where_it_may_not_be_started_it_counts_as_missing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """As with a policy that lists the programs of a machine. An error of the job's own program is reported instead."""
    monkeypatch.setattr(starting, "spawn", refusal(number))
    with pytest.raises(NoNativePart):
        start_natively("confine", limited(), (1, 2, -1))


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN])
def test_a_want_of_the_node_is_none_of_the_run_s_limits(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """They do not hold yet for what is started there."""
    monkeypatch.setattr(starting, "spawn", refusal(number))
    with pytest.raises(OSError, match=os.strerror(number)):
        start_natively("confine", limited(), (1, 2, -1))


def refusal(number: int) -> Callable[..., int]:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return refuse


def limited() -> Confined:
    options = Options(python_runs_max=1, python_memory_max=1, pids_max=1, nice=0)
    return Confined(Exec(("true",), {}, limits=Limits(memory=1 << 30)), options, {}, (), None, None)
