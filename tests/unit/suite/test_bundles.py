"""How the test files are cut into bundles, and which of them run side by side."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from scripts.suite import pool
from scripts.suite.bundles import ROOT, UNKNOWN, Bundle, bundles, files_of_tests, kept
from scripts.suite.pool import Pool, Stopped


def test_each_file_is_in_one_bundle_and_the_longest_is_first() -> None:
    files = [
        "tests/unit/core/test_a.py",
        "tests/unit/core/test_b.py",
        "tests/e2e/test_c.py",
        "tests/unit/api/test_d.py",
    ]
    durations = {files[0]: (30.0, 30.0), files[1]: (20.0, 10.0), files[2]: (50.0, 5.0)}
    made = bundles(files, durations, ("pytest",), 45.0)
    assert sorted(file for bundle in made for file in bundle.files) == sorted(files)
    assert [bundle.wall_s for bundle in made] == [50.0, 32.0, 20.0]
    assert made[1].command == ("pytest", files[3], files[0])  # a file that nobody timed counts as UNKNOWN
    assert UNKNOWN[0] == 2.0


def test_folders_whose_fixtures_differ_are_not_mixed() -> None:
    files = ["tests/e2e/test_a.py", "tests/e2e/browser/test_b.py", "tests/integration/api/test_c.py"]
    made = bundles(files, {}, ("pytest",))
    assert {bundle.name: bundle.needs for bundle in made} == {
        "e2e": "",
        "e2e/browser": "browser",
        "integration/api": "",
    }


def test_every_test_file_of_the_repository_is_found() -> None:
    files = files_of_tests(["tests"])
    assert str(Path(__file__).relative_to(ROOT)) in files
    assert len(files) == len(set(files))
    assert set(files) >= set(files_of_tests(["tests/unit", "tests/unit/suite"]))
    of_rooms = [path for path in (ROOT / "tests" / "unit").iterdir() if (path / "__init__.py").exists()]
    assert all(any(file.startswith(f"tests/unit/{path.name}/") for file in files) for path in of_rooms)


def test_the_durations_that_are_kept_are_of_files_that_are_there() -> None:
    gone = [file for file in kept() if not (ROOT / file).exists()]
    assert not gone, "./scripts/test durations leaves them out"


def test_tests_without_a_clock_keep_a_core_busy_however_long_they_waited_for_it() -> None:
    slow = (100.0, 20.0)
    clockless, with_clock = (
        bundles([file], {file: slow}, ("pytest",))[0] for file in ("tests/unit/core/test_a.py", "tests/e2e/test_a.py")
    )
    assert clockless.cores > 0.8
    assert with_clock.cores == pytest.approx(0.2)


def python(name: str, code: str, wall_s: float = 1.0, cores: float = 1.0, needs: str = "") -> Bundle:
    return Bundle(name, (sys.executable, "-c", code), wall_s, wall_s * cores, needs=needs)


def test_what_runs_side_by_side_fits_the_cores_and_the_longest_begins_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool.Cores, "idle", lambda _: 0.0)
    said: list[str] = []
    begin = "import sys, pathlib; p = pathlib.Path(sys.argv[0] or '.'); "
    mark = "open('begun', 'a').write({name!r} + chr(10))"
    made = [
        Bundle(name, (sys.executable, "-c", f"{begin}{mark.format(name=name)}"), wall_s, wall_s)
        for name, wall_s in (("short", 1.0), ("long", 30.0), ("middle", 5.0))
    ]
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        ended = Pool(tmp_path, dict(os.environ), said.append, cores=1).run(made)
    finally:
        os.chdir(before)
    assert all(end.good for end in ended)
    assert (tmp_path / "begun").read_text().split() == ["long", "middle", "short"]  # one after the other
    assert len(said) == 3


def test_one_more_begins_where_the_cores_are_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two waits for the other."""
    monkeypatch.setattr(pool.Cores, "idle", lambda _: 1.0)
    waits = (
        "import pathlib, time; pathlib.Path({own!r}).touch(); other = pathlib.Path({other!r})\n"
        "while not other.exists(): time.sleep(0.01)"
    )
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    made = [python("a", waits.format(own=a, other=b)), python("b", waits.format(own=b, other=a))]
    assert all(end.good for end in Pool(tmp_path, dict(os.environ), lambda _: None, cores=1).run(made))


def test_the_idle_share_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([(100, 1_000), (400, 2_000)])
    monkeypatch.setattr(pool, "_ticks", lambda: next(ticks))
    machine = pool.Cores()
    assert machine.idle() == 0.0  # nobody knows yet
    monkeypatch.setattr(pool, "LOOK_S", 0.0)
    assert machine.idle() == 0.3


def test_a_bundle_that_fails_is_told_with_its_last_line(tmp_path: Path) -> None:
    said: list[str] = []
    bad = python("bad", "print('first'); print('it broke'); raise SystemExit(3)")
    ended = Pool(tmp_path, dict(os.environ), said.append).run([bad, python("nothing chosen", "raise SystemExit(5)")])
    assert {end.bundle.name: end.good for end in ended} == {"bad": False, "nothing chosen": True}
    assert any(line.endswith("bad: FAILED (it broke)") for line in said)


def test_a_bundle_waits_for_what_it_needs(tmp_path: Path) -> None:
    installed = threading.Event()
    order: list[str] = []

    def say(line: str) -> None:
        order.append(line)
        installed.set()  # once the other one has ended

    made = Pool(tmp_path, dict(os.environ), say, lambda _: installed.is_set())
    made.run([python("needs", "", 9.0, needs="browser"), python("other", "")])
    assert [" other" in line for line in order] == [True, False]


def test_tests_of_the_chart_need_helm() -> None:
    needs = {bundle.needs for bundle in bundles(["tests/unit/docs/test_chart.py", "tests/unit/test_style.py"], {}, ())}
    assert needs == {"helm"}


def test_a_signal_ends_all_that_runs(tmp_path: Path) -> None:
    waits = "import os, pathlib, signal; pathlib.Path({file!r}).write_text(str(os.getpid())); signal.pause()"
    file = tmp_path / "pid"
    me = os.getpid()

    def interrupt() -> None:
        while not (file.exists() and file.read_text()):
            time.sleep(0.01)
        os.kill(me, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Stopped) as stopped:
        Pool(tmp_path, dict(os.environ), lambda _: None).run([python("waits", waits.format(file=str(file)))])
    thread.join()
    assert stopped.value.number == signal.SIGINT
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)
