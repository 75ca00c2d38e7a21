"""README, "A real cluster": its commands, as they are written, on three machines.

A machine is a network namespace with an address of its own, and its own /etc/raftsched and /var/lib/raftsched. For scp,
which needs a server, stands one that copies from the other machine's directory.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

README = Path(__file__).parents[2] / "README.md"
PACKAGE = README.parent
COMMANDS_MAX = 5
READY_S = 60.0
# of /etc: what programs look into
ETC = ("passwd", "group", "hosts", "nsswitch.conf", "localtime", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl")


def commands(machine: str) -> list[str]:
    """What README says to do there, in order."""
    blocks = re.findall(r"```sh\n# on (n[123])\n(.*?)```", README.read_text(), re.DOTALL)
    text = next(block for name, block in blocks if name == machine)
    return [line for line in re.split(r"(?<!\\)\n", text) if line]


class Machine:
    def __init__(self, number: int, directory: Path) -> None:
        self.name = f"n{number}"
        self.address = f"10.0.0.{number}"
        self.namespace = f"rs{os.getpid()}n{number}"
        self.root = directory / self.name
        self.log = directory / f"{self.name}.log"
        self.started: list[subprocess.Popen[bytes]] = []
        etc = self.root / "etc"
        (etc / "raftsched").mkdir(parents=True)
        (self.root / "lib").mkdir()
        for name in ETC:
            source = Path("/etc", name)
            if source.is_dir():
                shutil.copytree(source, etc / name, symlinks=True, ignore_dangling_symlinks=True)
            elif source.exists():
                shutil.copy(source, etc / name)

    def _argv(self, command: str) -> list[str]:
        mounts = f"mount --bind {self.root}/etc /etc && mount --bind {self.root}/lib /var/lib"
        return ["ip", "netns", "exec", self.namespace, "unshare", "-m", "bash", "-c", f"{mounts} && {command}"]

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
        return {
            **kept,
            "PATH": f"{self.root.parent / 'bin'}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "MACHINES": str(self.root.parent),
            "PYTHONPATH": str(PACKAGE),
        }

    def do(self, command: str, given: str = "") -> tuple[int, str, str]:
        done = subprocess.run(
            self._argv(command), env=self._environment(), input=given, capture_output=True, text=True, timeout=90,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def must(self, command: str, given: str = "") -> str:
        code, said, error = self.do(command, given)
        assert code == 0, f"{self.name}: {command}: exit {code}: {said}{error}\n{self.log.read_text()[-3000:]}"
        return said

    def start(self, command: str) -> None:
        with self.log.open("ab") as log:
            self.started.append(
                subprocess.Popen(
                    self._argv(f"exec {command}"),
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces take root, ip and unshare")
    made: list[str] = []
    hub = f"rs{os.getpid()}hub"
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    scripts = {
        "raftsched": f'#!/bin/sh\nexec {sys.executable} -m raftsched "$@"\n',
        "scp": '#!/bin/bash\nto="${@: -1}"; for from in "${@:1:$#-1}"; do\n'
        'cp -p "$MACHINES/${from%%:*}${from#*:}" "$to" || exit 1; done\n',
    }
    for name, text in scripts.items():
        (bin_directory / name).write_text(text)
        (bin_directory / name).chmod(0o755)
    found = [Machine(number, tmp_path) for number in (1, 2, 3)]
    try:
        try:
            for namespace in (hub, *(machine.namespace for machine in found)):
                ip("netns", "add", namespace)
                made.append(namespace)
            ip("-n", hub, "link", "add", "switch", "type", "bridge")
            ip("-n", hub, "link", "set", "switch", "up")
            for machine in found:
                port = f"p{machine.name}"
                ip("-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
                ip("-n", hub, "link", "set", port, "master", "switch", "up")
                ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", "eth0")
                ip("-n", machine.namespace, "link", "set", "eth0", "up")
                ip("-n", machine.namespace, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        code, _, error_text = found[0].do("true")
        if code:
            pytest.skip(f"no mounts of one's own here: {error_text.strip()}")
        yield found
    finally:
        for process in (process for machine in found for process in machine.started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in (process for machine in found for process in machine.started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for namespace in made:
            ip("netns", "delete", namespace)


def wait(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.2)


def test_five_commands_each(machines: list[Machine]) -> None:
    first, second, third = machines
    on_first, on_second = commands("n1"), commands("n2")
    on_third = [command.replace("n2.", "n3.").replace("--id n2", "--id n3") for command in on_second]
    on_third = [command.replace("-http 10.0.0.2", "-http 10.0.0.3") for command in on_third]
    on_third = [command.replace("-raft 10.0.0.2", "-raft 10.0.0.3") for command in on_third]
    assert len(on_first) <= COMMANDS_MAX
    assert len(on_second) <= COMMANDS_MAX
    for command in on_first[:3]:
        first.must(command)
    first.start(on_first[3])
    for machine, its in ((second, on_second), (third, on_third)):
        machine.must(its[0])
        machine.start(its[1])
    ready = "curl -sf --cacert /etc/raftsched/ca.crt https://{}:7401/readyz"
    for machine in machines:
        wait(f"{machine.name} is ready", lambda m=machine: m.do(ready.format(m.address))[0] == 0)  # type: ignore[misc]

    stranger = f"raftsched --server https://{first.address}:7401 --ca-file /etc/raftsched/ca.crt jobs list"
    code, _, error = third.do(stranger)
    assert (code, "raftsched tokens bootstrap" in error) == (5, True), error
    secret = first.must(on_first[4])
    assert secret.startswith("rs_")
    code, _, error = third.do(stranger)
    assert (code, "token" in error) == (5, True), error

    second.must(on_second[2], secret)
    status = second.must(on_second[3])
    assert all(machine.name in status for machine in machines), status
    second.must(on_second[4])
    wait("the job ran", lambda: "SUCCEEDED" in second.must("raftsched instances list --job hello"))
    third.must(on_third[2], secret)
    assert "hello" in third.must("raftsched jobs list")
    for machine in machines:
        log = machine.log.read_text()
        assert "is plain" not in log
        assert "(--open)" not in log
