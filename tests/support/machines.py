"""Machines on this one: network namespaces with an address each, and an /etc and a /var/lib of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.patience import patient

PACKAGE = Path(__file__).parents[2]
# of /etc: what programs look into
ETC = ("passwd", "group", "hosts", "nsswitch.conf", "localtime", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl")
COMMANDS = {
    "raftsched": f'#!/bin/sh\nexec {sys.executable} -m raftsched "$@"\n',
    # from one machine's directory to another's; a path without a machine is one of its own
    "scp": '#!/bin/bash\nplace() { case $1 in *:*) echo "$MACHINES/${1%%:*}${1#*:}";; *) echo "$1";; esac; }\n'
    'for from in "${@:1:$#-1}"; do cp "$(place "$from")" "$(place "${@: -1}")" || exit 1; done\n',
}


class Machine:
    def __init__(self, name: str, address: str, directory: Path, own: Sequence[str] = ()) -> None:
        """`own`: further directories that it does not share with the others, such as "opt"."""
        self.name = name
        self.address = address
        self.namespace = f"rs{os.getpid()}{name}"
        self.root = directory / self.name
        self.log = directory / f"{self.name}.log"
        self.started: list[subprocess.Popen[bytes]] = []
        self.environment: dict[str, str] = {}  # beside the usual
        self.etc = self.root / "etc"
        self.own = ("etc", "var/lib", *own)
        for place in (*self.own, "etc/raftsched"):
            (self.root / place).mkdir(parents=True, exist_ok=True)
        for name_of in ETC:
            source = Path("/etc", name_of)
            if source.is_dir():
                shutil.copytree(source, self.etc / name_of, symlinks=True, ignore_dangling_symlinks=True)
            elif source.exists():
                shutil.copy(source, self.etc / name_of)

    def _argv(self, command: str) -> list[str]:
        mounts = " && ".join(f"mount --bind {self.root}/{place} /{place}" for place in self.own)
        return ["ip", "netns", "exec", self.namespace, "unshare", "-m", "bash", "-c", f"{mounts} && {command}"]

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
        return {
            **kept,
            "PATH": f"{self.root.parent / 'bin'}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "MACHINES": str(self.root.parent),
            "PYTHONPATH": str(PACKAGE),
            **self.environment,
        }

    def do(self, command: str, given: str = "") -> tuple[int, str, str]:
        done = subprocess.run(
            self._argv(command), env=self._environment(), input=given, capture_output=True, text=True,
            timeout=patient(90), check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def must(self, command: str, given: str = "") -> str:
        code, said, error = self.do(command, given)
        assert code == 0, f"{self.name}: {command}: exit {code}: {said}{error}\n{self.said()}"
        return said

    def said(self) -> str:
        """The end of what its programs logged."""
        return self.log.read_text()[-3000:] if self.log.exists() else ""

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

    def end(self) -> None:
        """SIGTERM to what was started here, and its end."""
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(patient(20))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.started.clear()

    def move(self, address: str) -> None:
        """Gives it another address in the place of its own."""
        _ip("-n", self.namespace, "addr", "del", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self.namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        self.address = address


@contextmanager
def network(
    addresses: Mapping[str, str],
    directory: Path,
    commands: Mapping[str, str] | None = None,
    own: Sequence[str] = (),
) -> Iterator[list[Machine]]:
    """Machines by their names, on one switch. `commands`: further programs that all of them have; `own`: directories
    that each has for itself. Skips the test where this machine cannot have such."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces take root, ip and unshare")
    put_commands(directory / "bin", {**COMMANDS, **(commands or {})})
    found = [Machine(name, address, directory, own) for name, address in addresses.items()]
    made: list[str] = []
    try:
        try:
            _connect(found, made)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        code, _, error_text = found[0].do("true")
        if code:
            pytest.skip(f"no mounts of one's own here: {error_text.strip()}")
        yield found
    finally:
        for machine in found:
            machine.end()
        for namespace in made:
            _ip("netns", "delete", namespace)


def _connect(machines: Sequence[Machine], made: list[str]) -> None:
    """Makes the namespaces, noting each, and the switch between them."""
    hub = f"rs{os.getpid()}hub"
    for namespace in (hub, *(machine.namespace for machine in machines)):
        _ip("netns", "add", namespace)
        made.append(namespace)
    _ip("-n", hub, "link", "add", "switch", "type", "bridge")
    _ip("-n", hub, "link", "set", "switch", "up")
    for number, machine in enumerate(machines):
        port = f"port{number}"
        _ip("-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
        _ip("-n", hub, "link", "set", port, "master", "switch", "up")
        _ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", "eth0")
        _ip("-n", machine.namespace, "link", "set", "eth0", "up")
        _ip("-n", machine.namespace, "link", "set", "lo", "up")


def put_commands(directory: Path, scripts: Mapping[str, str]) -> None:
    """Writes programs by their names."""
    directory.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
