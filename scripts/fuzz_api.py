"""Generated requests to three real nodes, from the API's own description (schemathesis), with all its checks.

The cluster is paused, so that nothing of what is made up is ever run. Two runs: all operations but streams and those
named in LEFT_OUT and ALONE through the leader, and the same through a follower. The settings are left alone: with them
changed hardly anything would be accepted.

Exit code 0: nothing was found. 1: a failure, said on stdout with a curl command that shows it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from raftsched.api.openapi import operation_id
from raftsched.api.operation import OPERATIONS
from raftsched.api.routes import ROUTES
from tests.support.cluster import Cluster, NodeProcess

ROOT = Path(__file__).resolve().parent.parent
RUNS = ("plain", "follower")
LEFT_OUT = ("members_add", "members_remove", "members_transfer", "settings_pause", "settings_resume")
ALONE = ("settings_patch",)
EACH_FOR_ITSELF = ("batch_create_batch",)  # a batch is taken with 200; each of its jobs has a result of its own
SECONDS_MAX = 550.0  # of one run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz-api", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=60, help="at most, of each operation and run (60)")
    parser.add_argument("--runs", default=",".join(RUNS), help=f"some of {','.join(RUNS)} (all)")
    parser.add_argument("--only", default="", help="ids of operations, separated by commas (all)")
    parser.add_argument("--phases", default="fuzzing", help="of schemathesis")
    parser.add_argument("--seed", type=int, default=None, help="a new one each time, unless given")
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    runs = given.runs.split(",")
    if set(runs) - set(RUNS):
        parser.error(f"--runs takes some of {','.join(RUNS)}")
    print(f"seed {seed}; starting 3 nodes ...", flush=True)
    with Cluster(3) as cluster:
        assert cluster.nodes[0].request("POST", "/v1/cluster/pause", {}).status == 200
        failed = [run for run in runs if not _run(cluster, run, given, seed)]
        dead = [node.id for node in cluster.nodes if not node.alive]
        if dead:
            print(f"these nodes ended: {', '.join(dead)}\n{cluster.logs()}")
    print(f"failed: {', '.join(failed)}" if failed else "nothing was found")
    return 1 if failed or dead else 0


def _run(cluster: Cluster, run: str, given: argparse.Namespace, seed: int) -> bool:
    print(f"== {run}", flush=True)
    wanted = given.only.split(",") if given.only else _operations()
    node = cluster.followers()[0] if run == "follower" else cluster.leader()
    apart = [name for name in wanted if name in EACH_FOR_ITSELF]
    sound = _schemathesis(node, [name for name in wanted if name not in apart], given, seed, [])
    return (not apart or _schemathesis(node, apart, given, seed, ["negative_data_rejection"])) and sound


def _operations() -> list[str]:
    left_out = {*LEFT_OUT, *ALONE}
    return [operation_id(r) for r in ROUTES if operation_id(r) not in left_out and not OPERATIONS[r.handler].streams]


def _schemathesis(
    node: NodeProcess, operations: list[str], given: argparse.Namespace, seed: int, without: list[str]
) -> bool:
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            "scripts/trials/schemathesis.toml",
            "run",
            f"http://127.0.0.1:{node.http_port}/openapi.json",
        ),
        *("--checks", "all", "--seed", str(seed), "--max-examples", str(given.examples), "--phases", given.phases),
        *("--continue-on-failure", "--no-color", "--suppress-health-check", "all", "--request-timeout", "30"),
        *("--generation-database", "none", "--warnings", "off"),
    ]
    if without:
        command += ["--exclude-checks", ",".join(without)]
    for name in operations:
        command += ["--include-operation-id", name]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "scripts.trials.fuzz_hooks", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, cwd=ROOT, timeout=SECONDS_MAX, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
