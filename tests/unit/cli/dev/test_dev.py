"""`raftsched dev` with stub nodes: ready, status, kill-leader, restart, and no process left behind, however it ends."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftsched.cli.dev.processes import describe_end
from raftsched.cli.dev.samples import REPORT, broken_report, sample_jobs
from raftsched.cli.dev.state import DevState, Process
from raftsched.cli.main import cli
from raftsched.samples import report
from tests.support.patience import patient
from tests.support.ports import dev_port

STUB = Path(__file__).parents[3] / "support" / "stub_node.py"
START = f"""
import sys
from raftsched.cli.dev import processes as dev_cluster
dev_cluster.DevCluster.__init__.__defaults__ = ((sys.executable, {str(STUB)!r}),)
dev_cluster.RESTART_S = dev_cluster.LEFT_S = 0.1
from raftsched.cli.main import cli
cli.main(sys.argv[1:], prog_name="raftsched")
"""


def stub_processes(directory: Path) -> set[int]:
    """Every process whose command line names the directory, and what stubs leave behind."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"DEV_TEST={directory}".encode() in environ and line:
                found.add(int(entry.name))
    return found


class Dev:
    def __init__(self, directory: Path, *args: str) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "dev", "--data", str(directory), "--no-samples", *args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "DEV_TEST": str(directory)},
        )  # fmt: skip
        self.output = b""

    def read_until(self, text: str) -> None:
        assert self.process.stdout is not None
        while text.encode() not in self.output:
            ready, _, _ = select.select([self.process.stdout], [], [], patient(60))
            piece = os.read(self.process.stdout.fileno(), 65_536) if ready else b""
            assert piece, f"no {text!r} in:\n{self.output.decode()}"
            self.output += piece

    def end(self) -> int:
        assert self.process.stdout is not None
        code = self.process.wait(patient(60))
        self.process.stdout.close()
        return code

    def command(self, *args: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["dev", *args, "--data", str(self.directory)])
        return result.exit_code, result.output


@contextmanager
def dev(directory: Path, *args: str) -> Iterator[Dev]:
    found = Dev(directory, *args)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
            found.end()
        assert found.process.stdout is not None
        found.process.stdout.close()
        for pid in stub_processes(directory):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_life_of_a_dev_cluster(tmp_path: Path) -> None:
    with dev(tmp_path, "--port", str(dev_port())) as d:
        d.read_until("ready; Ctrl-C")
        state = DevState.load(tmp_path)
        assert state is not None
        assert state.supervisor is not None
        assert state.supervisor.pid == d.process.pid
        before = [m.process for m in state.members]
        assert all(p is not None and p.alive() for p in before)

        code, text = d.command("status")
        assert code == 0
        assert "n1 leads, term 1" in text

        code, text = d.command("kill-leader")
        assert code == 0, text
        assert f"killed n1 (pid {before[0].pid}), the leader of term 1" in text  # type: ignore[union-attr]
        assert "n2 leads now, term 2" in text
        d.read_until("n1 ended with SIGKILL")
        d.read_until("n1 is started again")
        state = DevState.load(tmp_path)
        assert state is not None
        assert state.members[0].process not in (None, before[0])

        second = CliRunner().invoke(cli, ["dev", "--data", str(tmp_path)])
        assert second.exit_code == 1
        assert "already" in second.stderr

        assert d.command("stop") == (0, "stopped\n")
        assert d.end() == 0
        assert stub_processes(tmp_path) == set()  # also not what the nodes left behind
        assert d.command("status")[0] == 6
        assert d.command("stop") == (0, f"nothing runs in {tmp_path}\n")

        other = CliRunner().invoke(cli, ["dev", "--data", str(tmp_path), "--nodes", "5"])
        assert other.exit_code == 2
        assert "holds a cluster of 3 nodes" in other.stderr


@pytest.mark.slow
def test_a_node_that_was_taken_out_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "stub-removed").write_text("n1")
    with dev(tmp_path, "--port", str(dev_port())) as d:
        d.read_until("ready; Ctrl-C")
        assert b"n1.log  (no member any more)" in d.output
        url = DevState.load(tmp_path).members[1].url  # type: ignore[union-attr]
        assert f"\nthe page: {url}/ui/\n  n1  ".encode() in d.output
        assert d.output.count(b"no member any more") == 1
        code, text = d.command("status")
        assert code == 0
        assert ["no member any more" in line for line in text.splitlines()[:3]] == [True, False, False]
        assert "n2 leads, term 1" in text
        assert d.command("stop") == (0, "stopped\n")
        assert d.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_everything(tmp_path: Path, number: signal.Signals) -> None:
    with dev(tmp_path, "--port", str(dev_port()), "--nodes", "1") as d:
        d.read_until("ready; Ctrl-C")
        d.process.send_signal(number)
        assert d.end() == 0
        assert stub_processes(tmp_path) == set()


def test_the_nodes_die_with_a_killed_dev(tmp_path: Path) -> None:
    with dev(tmp_path, "--port", str(dev_port())) as d:
        d.read_until("ready; Ctrl-C")
        state = DevState.load(tmp_path)
        assert state is not None
        d.process.kill()
        d.end()
        for member in state.members:
            assert member.process is not None
            assert member.process.wait(patient(30))


def test_a_taken_port_is_said_and_nothing_is_started(tmp_path: Path) -> None:
    port = dev_port()
    with socket.create_server(("127.0.0.1", port + 101)), dev(tmp_path, "--port", str(port)) as d:
        d.read_until(f"port {port + 101} is taken")
        assert d.end() == 1
        assert stub_processes(tmp_path) == set()


def test_a_node_that_ends_while_starting_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    port = dev_port()
    (tmp_path / "n1").write_text("in the way of the data directory")
    with dev(tmp_path, "--port", str(port), "--nodes", "1") as d:
        d.read_until("FileExistsError")
        assert b"n1 ended with exit code 1 while starting" in d.output
        assert d.end() == 1


def test_a_process_is_more_than_its_pid() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = Process.of(child.pid)
        assert found is not None
        assert found.alive()
        other = Process(child.pid, found.start + 1)  # as if the pid had been used again
        assert not other.alive()
        assert not other.send(signal.SIGKILL)
        assert other.wait(0)
        assert not found.wait(0)
        assert found.send(signal.SIGKILL)
        assert found.wait(patient(30))
        assert child.wait() == -signal.SIGKILL
        assert not found.send(signal.SIGKILL)
    finally:
        child.kill()
        child.communicate()


def test_the_state_file(tmp_path: Path) -> None:
    assert DevState.load(tmp_path) is None
    state = DevState.new(2, 9000)
    state.supervisor = Process(1, 2)
    state.members[1].process = Process(3, 4)
    state.save(tmp_path)
    assert DevState.load(tmp_path) == state
    (tmp_path / "dev.json").write_text(json.dumps({"port": 1}))
    with pytest.raises(ValueError, match="cannot be read"):
        DevState.load(tmp_path)


def test_samples_are_of_every_kind() -> None:
    jobs = sample_jobs(1_763_600_400_000, "http://127.0.0.1:7401")
    assert {next(iter(j["trigger"])) for j in jobs} == {"at", "in", "every", "cron", "manual"}
    assert {next(iter(j["handler"])) for j in jobs} == {"shell", "exec", "python", "http"}
    assert len({j["name"] for j in jobs}) == len(jobs)
    assert any(j.get("retry") for j in jobs)
    assert any(j.get("suspended") for j in jobs)
    assert jobs[0]["trigger"]["at"] == "2025-11-20T01:00:08.000Z"


def test_the_report_failed_because_of_its_first_content_and_is_mended() -> None:
    (program, _), mended = broken_report()["handler"]["exec"], REPORT["handler"]
    assert not (Path.cwd() / program).exists()
    assert mended == {"python": f"{report.__module__}:{report.__name__}"}
    assert report(month="2026-02") == {"month": "2026-02", "invoices": 196}
    with pytest.raises(ValueError, match="13"):
        report(month="2026-13")


def test_ends_in_words() -> None:
    assert [describe_end(n) for n in (0, 3, -9, -99)] == [
        "exit code 0",
        "exit code 3",
        "SIGKILL",
        "signal 99",
    ]
