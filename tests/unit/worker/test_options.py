"""What a node gives its supervisor: one value that arrives as it was sent, read without much else being loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest

from raftsched.config.runs import UNSAID
from raftsched.worker.processes.options import Options, Start, read_start
from raftsched.worker.processes.users import User

OPTIONS = Options(
    **{**msgspec.structs.asdict(UNSAID), "memory_max": 1 << 40, "nice": 7},
    users=(User("svc", 1_001, 1_002, (1_002, 1_003), "/home/svc", "/bin/sh"),),
    pythonpath=("/srv/ü", os.fsdecode(b"/srv/\xff")),
    http_deny=("10.0.0.0/8",),
    cgroups="/sys/fs/cgroup/x",
    warm_max=4,
)
START = Start(
    options=OPTIONS,
    node_fd=3,
    life_fd=4,
    lock_fd=5,
    lease_fd=6,
    live_directory=os.fsdecode(b"/data/\xfe/live"),
    package_root="/usr/lib",
    open_files=-1,
)


def test_it_arrives_as_it_was_sent() -> None:
    assert read_start(START.argument()) == START
    assert os.fsencode(START.argument()).isascii()


@pytest.mark.parametrize("name", ["nice", "pids_max", "python_runs_max", "python_memory_max"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    said = json.loads(START.argument())
    del said["options"][name]
    with pytest.raises(msgspec.ValidationError, match=f"`{name}` - at `\\$.options`"):
        read_start(json.dumps(said))


def loaded(code: str) -> set[str]:
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_little_is_loaded_for_it() -> None:
    """Each process that is forked from a supervisor has in memory what that one has loaded."""
    code = "import sys; import raftsched.worker.processes.options; print(*sys.modules)"
    new = loaded(code) - loaded("import sys; print(*sys.modules)")
    ours = {name for name in new if name.startswith("raftsched")}
    assert {name.partition(".")[0] for name in new - ours} - sys.stdlib_module_names <= {"msgspec", "typing_extensions"}
    rooms = {".".join(name.split(".")[:2]) for name in ours} - {"raftsched", "raftsched.version"}
    assert rooms == {"raftsched.config", "raftsched.worker"}
    assert {name for name in ours if name.startswith("raftsched.config.")} == {"raftsched.config.run_options"}


def test_a_supervisor_loads_nothing_that_only_a_node_needs() -> None:
    code = (
        "import sys; import raftsched.worker.processes.sentinel, raftsched.worker.processes.supervising; "
        "print(*sys.modules)"
    )
    tops = {name.partition(".")[0] for name in loaded(code)}
    heavy = {"aiohttp", "asyncio", "concurrent", "cryptography", "email", "http", "lmdb", "orjson", "ssl", "urllib"}
    assert not tops & heavy
