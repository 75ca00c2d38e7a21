"""docs/virtual-machines.md: its commands, as they are written, on three machines.

The machines are network namespaces. For what would change this one (apt-get, useradd, nft) stand small programs. The
test does what systemd would with the unit: it starts and ends the service.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines import PACKAGE, Machine, network

pytestmark = pytest.mark.e2e

PAGE = (PACKAGE / "docs" / "virtual-machines.md").read_text()
UNIT = (PACKAGE / "deploy" / "systemd" / "raftsched.service").read_text()
OWN = "your own machine"
VERSIONS = ("0.3.0", "0.4.0")  # of the page's wheels
SERVICE = re.compile(r"^systemctl (?:enable --now|restart) raftsched\n", re.MULTILINE)
DOCTOR = re.compile(r"^(raftsched doctor.*)$", re.MULTILINE)
PYTHON3 = f"""\
#!/bin/bash
[ "$1 $2" = "-m venv" ] || exit 9
mkdir -p "$3/bin" "$3/share/raftsched"
cp -r "{PACKAGE}/deploy/systemd" "$3/share/raftsched/"
cp "$MACHINES/bin/raftsched" "$3/bin/raftsched"
printf '#!/bin/sh\\nwheel="${{2%%\\[*}}"; [ "$1" = install ] && [ -f "$wheel" ]\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""
COMMANDS = {
    "python3": PYTHON3,
    "useradd": '#!/bin/sh\nfor name; do :; done\nid=$((10001 + $(grep -c ":x:100[0-9][0-9]:" /etc/passwd)))\n'
    'echo "$name:x:$id:$id::/:/bin/sh" >> /etc/passwd\necho "$name:x:$id:" >> /etc/group\n',
    **dict.fromkeys(("apt-get", "nft", "systemctl"), "#!/bin/sh\n"),
}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3", "own": "10.0.0.9"}
    with network(addresses, tmp_path, COMMANDS, own=("opt", "usr/local/bin")) as found:
        for machine in found:
            for place in (machine.root, machine.root / "opt"):
                for version in VERSIONS:
                    (place / f"raftsched-{version}-py3-none-linux_x86_64.whl").write_text("of nothing\n")
            (machine.etc / "systemd" / "system").mkdir(parents=True)
        yield {machine.name: machine for machine in found}


def commands(section: str) -> list[tuple[str, str]]:
    """The blocks of a section: where, and what."""
    text = next(part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(section))
    return re.findall(r"```sh\n# on ([^\n]*)\n(.*?)```", text, re.DOTALL)


def work(machine: Machine, text: str, given: str = "") -> str:
    """Does it, in a directory of the machine's own. Returns what was printed."""
    text = DOCTOR.sub(r"\1 || [ $? = 1 ]", text)  # of this machine it may think what it likes
    parts = SERVICE.split(text)
    said = machine.must(f"cd {machine.root}\nset -euo pipefail\n{parts[0]}", given)
    if len(parts) > 1:
        machine.end()
        machine.start(re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[0])
        said += machine.must(parts[1] or "true")
    return said


def on_each(section: str, nodes: list[Machine]) -> None:
    """Does what a section says of each node."""
    for where, block in commands(section):
        for machine in nodes if where == "each" else ():
            its = block.replace("N=1\n", f"N={machine.name[1:]}\n")
            work(machine, its if machine.name == "n1" else DOCTOR.sub("true", its))  # one look at this disk is enough


def certificates(of: list[Machine], directory: str = "etc/raftsched") -> dict[str, bytes]:
    """The nodes' certificates that are in a directory of these machines, by their names."""
    return {file.name: file.read_bytes() for machine in of for file in (machine.root / directory).glob("n?.crt")}


def lose(machine: Machine) -> None:
    """Leaves an empty machine with its name and address."""
    machine.end()
    for place in ("etc/raftsched", "var/lib", "opt"):
        for found in (machine.root / place).iterdir():
            if found.suffix != ".whl":
                shutil.rmtree(found) if found.is_dir() and not found.is_symlink() else found.unlink()


def test_from_nothing_to_a_cluster_that_is_upgraded(machines: dict[str, Machine]) -> None:
    nodes = [machines[name] for name in ("n1", "n2", "n3")]
    for section in ("1. ", "2. ", "3. ", "4. ", "5. "):
        for where, block in commands(section):
            if where == OWN:
                work(machines["own"], block)
        on_each(section, nodes)
    for node in nodes:
        files = node.etc / "raftsched"
        assert {file.stat().st_mode & 0o777 for file in files.iterdir()} == {0o640}
        assert {(file.stat().st_uid, file.stat().st_gid) for file in files.iterdir()} == {(0, 10001)}

    ((where, block),) = commands("6. ")
    assert where == "n1"
    _, secret = work(machines["n1"], block).splitlines()
    ((where, block),) = commands("7. ")
    assert where == OWN
    shown = work(machines["own"], block, secret)
    assert "3 voting" in shown
    assert "hello" in machines["own"].must("raftsched jobs list")

    ((_, block),) = commands("Upgrading")
    work(machines["n2"], block)
    assert (machines["n2"].root / "opt" / "raftsched").readlink() == Path("raftsched-0.4.0")

    ((_, block),) = commands("Renewing")
    seen = [certificates(nodes)]
    for _ in range(2):  # and again before the next 90 days are over
        work(machines["own"], block)
        seen.append(certificates(nodes))
        assert certificates([machines["own"]], "ca") == seen[-1]
    assert all(len({one[name] for one in seen}) == 3 for name in seen[0])
    assert (nodes[2].etc / "raftsched" / "n3.key").stat().st_mode & 0o777 == 0o640

    lose(nodes[2])
    (_, copied), (_, replaced) = commands("A machine that is lost")
    before = [(node.etc / "raftsched" / f"{node.name}.crt").stat().st_mtime_ns for node in nodes[:2]]
    on_each("1. ", nodes[2:])
    work(machines["own"], copied)
    for section in ("3. ", "4. ", "5. "):
        on_each(section, nodes[2:])
    work(machines["own"], replaced)
    nodes[2].must("raftsched health --data /var/lib/raftsched --wait")
    assert certificates(nodes) == seen[-1]
    assert [(node.etc / "raftsched" / f"{node.name}.crt").stat().st_mtime_ns for node in nodes[:2]] == before
