"""exec and shell through the real supervisor."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from raftsched.core.commands import SelfReport
from raftsched.core.model import Outcome, Verdict
from raftsched.errors import RaftschedError
from raftsched.worker.processes.run_as import look_up
from raftsched.worker.processes.wire import Exec, Limits, Python
from tests.integration.runner.bed import AS_IT_IS, LONG_MS, NODES_OWN, Bed
from tests.support.patience import until, within


async def test_output_streams_and_exit_code(bed: Bed) -> None:
    end = await bed.run(Exec(("/bin/sh", "-c", "echo out; echo err >&2; exit 7"), {}))
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 7)
    assert end.error == "exit code 7\nerr"
    assert sorted(bed.text(end).split()) == ["err", "out"]
    assert bed.text(end, "stdout") == "out\n"
    assert bed.text(end, "stderr") == "err\n"
    assert end.started_at_ms is not None
    assert end.started_at_ms <= end.ended_at_ms


async def test_output_is_the_namespaces_of_the_run(tmp_path: Path) -> None:
    async with Bed(tmp_path, share_of={"billing": 1 << 20}.get) as bed:
        printed = Exec(("/bin/sh", "-c", "head -c 300000 /dev/zero"), {})
        ends = [await bed.run(printed, namespace="billing") for _ in range(8)]
        ends.append(await bed.run(printed, namespace="other"))
        for end in ends[5:]:
            assert bed.text(end) == "\0" * 300_000
        with pytest.raises(RaftschedError, match="not kept any more"):
            bed.text(ends[0])
        assert bed.output.size() < (1 << 20) + 301_000


@pytest.mark.parametrize("limits", [None, Limits(open_files=100)])
async def test_what_runs_is_nicer_than_the_node(tmp_path: Path, limits: Limits | None) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    async with Bed(tmp_path, nice=7) as bed:
        # It looks twice: a program is not nicer yet at its first instructions.
        script = "import os, time\nwhile os.getpriority(0, 0) != int(os.sys.argv[1]): time.sleep(0.01)"
        end = await bed.run(Exec((sys.executable, "-S", "-c", script, str(min(19, own + 7))), {}, limits=limits))
        assert end.outcome is Outcome.SUCCEEDED
        end = await bed.run(Python("os:getpriority", b'{"which": 0, "who": 0}', {}))
        assert end.result == str(min(19, own + 7)).encode()
        assert os.getpriority(os.PRIO_PROCESS, 0) == own


async def test_silence_makes_no_output(bed: Bed) -> None:
    end = await bed.run(Exec(("true",), {}))
    assert end.outcome is Outcome.SUCCEEDED
    assert end.output is None
    assert bed.output.size() == 0


async def test_a_signal_is_named(bed: Bed) -> None:
    end = await bed.run(Exec(("/bin/sh", "-c", "kill -SEGV $$"), {}))
    assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 139, "killed by SIGSEGV")


async def test_environment_is_clean_and_holds_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NODES_OWN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("PYTHONPATH", "/somewhere/of/mine")
    async with Bed(tmp_path) as bed:
        end = await bed.run(Exec(("env",), {"RAFTSCHED_JOB_ID": "j1", "HOME": "/elsewhere"}))
        env = dict(line.split("=", 1) for line in bed.text(end).splitlines())
        assert not env.keys() & NODES_OWN.keys()
        assert env["http_proxy"] == "http://proxy.example:3128"
        assert env["LC_TIME"] == "C"
        assert env["RAFTSCHED_JOB_ID"] == "j1"
        assert env["HOME"] == "/elsewhere"
        assert env["PYTHONPATH"] == "/somewhere/of/mine"
        assert "PATH" in env


async def test_nothing_of_ours_is_handed_down(bed: Bed) -> None:
    script = "import os, signal; print(sorted(os.listdir('/proc/self/fd'))[:-1]); print(os.getsid(0) == os.getpid())"
    script += "; print([s.name for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN])"
    script += "; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), os.read(0, 1))"
    end = await bed.run(Exec((sys.executable, "-I", "-S", "-c", script), {}))
    # What the interpreter itself sets to be ignored comes back by its own start.
    ignored = "['SIGPIPE', 'SIGXFSZ']"
    assert bed.text(end) == f"['0', '1', '2', '3']\nTrue\n{ignored}\nset() b''\n"


async def test_cwd(bed: Bed, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    script = place / "here.sh"
    script.write_text("#!/bin/sh\npwd; echo $PWD\n")
    script.chmod(0o755)
    end = await bed.run(Exec(("./here.sh",), {}, str(place)))
    assert bed.text(end) == f"{place}\n{place}\n"


async def test_what_cannot_start_says_why(bed: Bed, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    lost = tmp_path / "lost"
    lost.write_text("#!/no/such/interpreter\n")
    lost.chmod(0o755)
    nonsense = tmp_path / "nonsense"
    nonsense.write_bytes(b"\x01\x02")
    nonsense.chmod(0o755)
    cases = {
        ("no-such-command-at-all",): "command not found: 'no-such-command-at-all' (PATH is ",
        ("/no/such/file",): "command not found: '/no/such/file'",
        (str(tmp_path),): "Permission denied",
        (str(lost),): "the interpreter in its first line was not found",
        (str(nonsense),): "neither a program nor a script that begins with #!",
        ("",): "the command is empty",
        ("true", "x" * 200_000): "arguments and environment are too long",
    }
    if os.geteuid() != 0:
        cases[(str(plain),)] = "Permission denied"
    for argv, reason in cases.items():
        end = await bed.run(Exec(argv, {}))
        assert end.outcome is Outcome.FAILED, argv[0]
        assert end.error is not None
        assert reason in end.error
        assert bed.text(end).startswith("raftsched: ")
        assert reason in bed.text(end)
    end = await bed.run(Exec(("true",), {}, "/no/such/directory"))
    assert end.error == "cannot work in cwd '/no/such/directory': No such file or directory"


async def test_large_output_loses_its_middle_and_says_so(tmp_path: Path) -> None:
    lines = "".join(f"line {i}\n" for i in range(40_000))
    async with Bed(tmp_path, max_attempt_bytes=100_000) as bed:
        (tmp_path / "text").write_text(lines)
        end = await bed.run(Exec(("cat", str(tmp_path / "text")), {}))
        assert end.output is not None
        text = bed.text(end)
        cut = end.output.truncated
        assert cut == len(lines) - 100_000
        assert text == f"{lines[:50_000]}\n[... {cut} bytes of output left out ...]\n{lines[-50_000:]}"
        assert not list(bed.output.live_directory.iterdir())


async def test_each_run_has_a_bound_of_its_own(bed: Bed) -> None:
    program = Exec(("sh", "-c", "seq 100000"), {})
    for bound in (10_000, 40_000, 10_000):
        end = await bed.run(program, output_max=bound)
        assert end.output is not None
        note = f"\n[... {end.output.truncated} bytes of output left out ...]\n"
        assert end.output.truncated
        assert len(bed.text(end)) == bound + len(note)


async def test_output_can_be_read_while_it_runs_and_until_the_end_is_known(bed: Bed, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    told = asyncio.Event()
    bed.runner.on_started = lambda token, at_ms: told.set()
    token = bed.launch(Exec(("/bin/sh", "-c", "echo first; cat $1; echo last", "sh", str(go)), {}))
    await within(told.wait())  # 200 ms after the start, which is when output reaches the disk too
    await until(lambda: bed.output.live(token))
    assert bed.output.live(token) == b"first\n"
    assert bed.output.live(token, offset=2, limit=2) == b"rs"
    await asyncio.to_thread(go.write_text, "second\n")
    end = await bed.end(token)
    assert bed.text(end) == "first\nsecond\nlast\n"
    assert bed.output.live(token) == b"first\nsecond\nlast\n"
    assert bed.output.live(token + 1) is None


async def test_output_without_room_on_the_disk_does_not_hold_up_the_end(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(records: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bed.output, "append", full)
    end = await bed.run(Exec(("echo", "hello"), {}))
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, None)
    assert end.error == "the output could not be kept: No space left on device"


async def test_many_at_once(bed: Bed) -> None:
    tokens = [bed.launch(Exec(("/bin/sh", "-c", f"echo {i}"), {})) for i in range(60)]
    ends = [await bed.end(token) for token in tokens]
    assert [bed.text(end) for end in ends] == [f"{i}\n" for i in range(60)]


async def test_kill_of_what_is_over_or_unknown_is_nothing(bed: Bed) -> None:
    token = bed.launch(Exec(("true",), {}))
    await bed.end(token)
    bed.runner.kill(token)
    bed.runner.kill(999_999)
    assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED
    assert list(bed.ends) == bed.order


async def test_kill_at_any_moment(bed: Bed) -> None:
    for i in range(150):
        token = bed.launch(Exec(("true",), {}))
        for _ in range(i % 10):
            await asyncio.sleep(0)
        bed.runner.kill(token)
        assert (await bed.end(token)).outcome in (Outcome.SUCCEEDED, Outcome.KILLED)


async def test_ping(bed: Bed) -> None:
    bed.runner.ping()
    assert bed.runner.moves(LONG_MS)
    assert (await bed.run(Exec(("true",), {}))).outcome is Outcome.SUCCEEDED  # answered in between
    assert bed.runner.moves(0)


@pytest.mark.parametrize("limits", [None, Limits(open_files=100)])
async def test_what_it_says_of_itself(bed: Bed, tmp_path: Path, limits: Limits | None) -> None:
    """By its descriptor and by the name of it, also from a child, while it goes on and at its end."""
    heard: list[tuple[int, SelfReport]] = []
    script = """
        echo '{"progress": 40, "text": "copying"}' >&3
        sh -c 'echo "{\\"state\\": {\\"row\\": 7}}" >> /dev/fd/3'
        echo nonsense >&3
        read gate < "$1"
        echo '{"outcome": "snooze 10m", "reason": "busy"}' >> "$RAFTSCHED_REPORT_FILE"
        exit 3
    """
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    spoken = asyncio.Event()

    def note(token: int, said: SelfReport) -> None:
        heard.append((token, said))
        spoken.set()

    bed.runner.on_self_report = note
    task = Exec(("/bin/sh", "-c", script, "sh", str(gate)), {"RAFTSCHED_REPORT_FILE": "/dev/fd/3"}, limits=limits)
    token = bed.launch(task)
    await within(spoken.wait())  # else all that it says may be read at its end
    await within(asyncio.to_thread(gate.write_text, "\n"))
    end = await bed.end(token)
    assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 3, "busy")
    assert (end.verdict, end.delay_ms) == (Verdict.SNOOZE, 600_000)
    assert end.said == SelfReport(40, "copying", b'{"row":7}')
    assert "is not JSON" in bed.text(end, "stderr")
    assert heard
    assert heard[0][0] == token
    assert heard[0][1].percent == 40


async def test_what_it_says_counts_for_nothing_when_it_is_killed(bed: Bed, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = 'echo \'{"outcome": "succeed", "state": 1}\' >&3; read gate < "$1"; exec sleep 1000'
    token = bed.launch(Exec(("/bin/sh", "-c", script, "sh", str(gate)), {}))
    await within(asyncio.to_thread(gate.write_text, "\n"))
    bed.runner.kill(token, "stop it")
    end = await bed.end(token)
    assert (end.outcome, end.verdict) == (Outcome.KILLED, None)
    assert end.said == SelfReport(kept=b"1")


@pytest.mark.parametrize("user", ["", "nobody"])
async def test_both_ways_to_confine_say_the_same(tmp_path: Path, user: str) -> None:
    """With the native part, and without it: why a run could not start, and what one that did was given."""
    if user and os.geteuid() != 0:
        pytest.skip("needs root")
    if AS_IT_IS.confine is None:
        pytest.skip("the native part is not built here")
    there = tmp_path / "there"
    there.mkdir()
    (there / "link").symlink_to("/usr")
    for name, text in {"plain": "", "script": "#!/no/such\n", "neither": "words\n"}.items():
        (there / name).write_text(text)
        (there / name).chmod(0o755 if name != "plain" else 0o644)
    for place in (there, *there.parents):
        if place.stat().st_uid == os.geteuid() and str(place).startswith(str(tmp_path.parents[1])):
            place.chmod(0o755)
    path = {"PATH": f"{there}:/usr/bin:/bin"}
    shows = "id -u; id -G; pwd; echo $PWD $HOME $A; ulimit -n; ulimit -t; umask; cat /proc/self/oom_score_adj; echo $#"
    usr, few = "/usr", Limits(open_files=50, cpu_s=7)
    tasks = [
        Exec(("/bin/sh", "-c", shows, "sh", "", "--"), {**path, "A": "a=b"}, usr, few),
        Exec(("true",), path, "/no/such"),
        Exec(("true",), path, str(there / "script")),
        Exec(("true",), path, usr, within=(str(there),)),
        Exec(("true",), path, str(there / "link"), within=(str(there),)),
        Exec(("true",), path, usr, within=()),
        Exec(("true",), path, usr, within=("/", "/usr")),
        Exec(("",), path, usr),
        Exec(("no-such-program",), path, usr),
        Exec(("plain",), path, usr),
        Exec((str(there / "plain"),), path, usr),
        Exec(("script",), path, usr),
        Exec(("neither",), path, usr),
        Exec(("there",), {"PATH": str(tmp_path)}, usr),
        Exec(("/usr",), path, usr),
        Exec(("true", "x" * 2**17), path, usr),
        Exec(("true",), {**path, "LONG": "x" * 2**17}, usr),
        Exec(("true", "a\0b"), path, usr),
        Exec(("true",), {}, usr),
    ]
    said = []
    for confine in (AS_IT_IS.confine, None):
        place = tmp_path / str(confine is None)
        place.mkdir()
        async with Bed(place, users=(look_up("nobody"),), confine=confine) as bed:
            ends = [
                await bed.run(Exec(t.argv, dict(t.env), t.cwd, t.limits, within=t.within), user=user) for t in tasks
            ]
            said.append([(end.outcome, end.exit_code, end.error, bed.text(end)) for end in ends])
    for task, native, forked in zip(tasks, *said, strict=True):
        assert native == forked, task.argv
    assert said[0][0][0] is Outcome.SUCCEEDED
    assert [outcome for outcome, *_ in said[0]].count(Outcome.SUCCEEDED) == 3
