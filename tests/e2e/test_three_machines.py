"""docs/cluster.md: its commands, as they are written, on three machines.

A machine is a network namespace with an address of its own, and its own /etc/raftsched and /var/lib/raftsched. For scp,
which needs a server, stands one that copies from the other machine's directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines import Machine, network
from tests.support.patience import wait_until

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
COMMANDS_MAX = 5


def commands(machine: str) -> list[str]:
    """What the page says to do there, in order."""
    blocks = re.findall(r"```sh\n# on (n[123])\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text = next(block for name, block in blocks if name == machine)
    return [line for line in re.split(r"(?<!\\)\n", text) if line]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    with network({f"n{number}": f"10.0.0.{number}" for number in (1, 2, 3)}, tmp_path) as found:
        yield found


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
        wait_until(lambda m=machine: m.do(ready.format(m.address))[0] == 0, f"{machine.name} is ready")  # type: ignore[misc]

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
    wait_until(lambda: "SUCCEEDED" in second.must("raftsched instances list --job hello"), "the job ran")
    third.must(on_third[2], secret)
    assert "hello" in third.must("raftsched jobs list")
    for machine in machines:
        log = machine.log.read_text()
        assert "is plain" not in log
        assert "(--open)" not in log
