"""Generated requests to three real nodes, made by schemathesis from the API's own description, with all its checks and
in all its phases: each constraint of each schema kept and broken once, then at random, then one call after the other
along the links of the description. What is looked for: answers with 5xx, answers that are not as described (status,
headers, media type, body), well-formed requests that are refused, malformed ones that are taken, deleted things that
are still there and made things that are not.

Three runs, each with a cluster of its own: through the leader, through a follower, and through a node that loses its
leader again and again (kill -9, and a new start); there 503 and 504 are answers like others, if they are as described.
Each run ends with the settings alone: with them changed hardly anything else would be accepted.

The cluster is paused, so that nothing of what is made up is ever run. Left out by name: what changes the members or the
leader, and what would end the pause. They are printed. Streams are asked for what there is (follow=false).

  scripts/fuzz-api                                  all three runs, five minutes each
  scripts/fuzz-api --through follower --seconds 60
  scripts/fuzz-api --kill-leader --seed 7           the same requests once more, as far as the answers are the same
  scripts/fuzz-api --through leader --role viewer   tokens are required, and one of this role is sent
  scripts/fuzz-api --only jobs_create,jobs_patch --examples 500 --seconds 0

Exit code 0: nothing was found. 1: a failure, said on stdout with a curl command that shows it. 2: wrong usage.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import subprocess
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from raftsched.api.routes import ROUTES
from tests.support.cluster import Cluster, NodeProcess

ROOT = Path(__file__).resolve().parent.parent
PHASES = ("examples", "coverage", "fuzzing", "stateful")
LEFT_OUT = {
    "members_add": "changes the members",
    "members_remove": "changes the members",
    "members_transfer": "changes the leader",
    "settings_pause": "the cluster is paused, and stays so",
    "settings_resume": "would run what was made up",
}
OPENS = {"tokens_put_access": "would ask for no token any more"}  # where they are required
ROLES = ("worker", "viewer", "editor", "operator", "admin")
ALONE = ("settings_get", "settings_patch")
LINKED = ("jobs_create", "jobs_get", "jobs_delete")  # in each sample, as else nothing might follow from anything
ALONE_PART = 10  # one in so many seconds
BETWEEN_KILLS_S = (1.0, 4.0)


def main() -> int:
    given, wanted = _arguments()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    print(f"seed {seed}")
    for name, why in {**LEFT_OUT, **(OPENS if given.role else {})}.items():
        print(f"left out: {name}, {why}")
    sys.stdout.flush()
    runs = _runs(given)
    failed = [run for run in runs if not _run(run, wanted, given, seed)]
    print(f"failed: {', '.join(failed)}; seed {seed}" if failed else "nothing was found")
    return 1 if failed else 0


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz-api", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=300,
        help="of each run, shared by the phases (300); 0: until all examples are made",
    )
    parser.add_argument("--examples", type=int, default=100, help="of each operation, each time it is its turn (100)")
    parser.add_argument("--seed", type=int, help="a new one each time, unless given")
    parser.add_argument("--through", choices=("leader", "follower"), help="only this run")
    parser.add_argument("--kill-leader", action="store_true", help="only the run during which leaders are killed")
    parser.add_argument("--role", choices=ROLES, help="require tokens, and send one of this role")
    parser.add_argument("--only", default="", metavar="IDS", help="ids of operations, separated by commas (all)")
    parser.add_argument("--sample", type=int, metavar="N", help="this number of operations, chosen by the seed (all)")
    parser.add_argument("--phases", default=",".join(PHASES), help=f"some of {','.join(PHASES)} (all)")
    given = parser.parse_args()
    if given.role and given.kill_leader:
        parser.error("--role goes with --through: who kills leaders asks without a token who leads")
    left_out = {**LEFT_OUT, **(OPENS if given.role else {})}
    possible = [r.operation_id for r in ROUTES if r.operation_id not in left_out]
    wanted = given.only.split(",") if given.only else possible
    if set(wanted) - set(possible):
        parser.error(f"no operations, or left out: {', '.join(sorted(set(wanted) - set(possible)))}")
    if set(given.phases.split(",")) - set(PHASES):
        parser.error(f"--phases takes some of {','.join(PHASES)}")
    return given, wanted


def _runs(given: argparse.Namespace) -> list[str]:
    chosen = [given.through] if given.through else []
    chosen += ["kills"] if given.kill_leader else []
    return chosen or (["leader", "follower"] if given.role else ["leader", "follower", "kills"])


def _run(run: str, wanted: list[str], given: argparse.Namespace, seed: int) -> bool:
    if given.sample is not None:
        chosen = random.Random(f"{seed} {run}").sample(wanted, min(given.sample, len(wanted)))
        wanted = [name for name in wanted if name in {*chosen, *LINKED}]
    print(f"== {run}: starting 3 nodes", flush=True)
    with Cluster(3) as cluster:
        assert cluster.nodes[0].request("POST", "/v1/cluster/pause", {}).status == 200
        leader = cluster.leader()
        node = leader if run == "leader" else cluster.followers()[0]
        tokens = _guard(leader, given.role) if given.role else None
        kills = Kills(cluster, node, seed) if run == "kills" else None
        sound = True
        try:
            phases = given.phases.split(",")
            together = [name for name in wanted if name not in ALONE]
            alone = [name for name in wanted if name in ALONE]
            unlinked = [phase for phase in phases if phase != "stateful"]
            if together:
                sound = _schemathesis(
                    node, together, phases, given.seconds, given.examples, seed, kills is not None, tokens
                )
            if alone and unlinked:
                part = -(-given.seconds // ALONE_PART)
                sound = (
                    _schemathesis(
                        node, alone, unlinked, part, given.examples, seed, kills is not None, tokens, "ignored_auth"
                    )
                    and sound
                )
        finally:
            killed = kills.stop() if kills is not None else 0
        dead = [one.id for one in cluster.nodes if not one.alive]
        if kills is not None:
            print(f"leaders killed: {killed}", flush=True)
            sound = sound and killed > 0
        if dead:
            print(f"these nodes ended: {', '.join(dead)}\n{cluster.logs()}")
        return sound and not dead


class Kills:
    """Kills the leader and starts it again, over and over. `spared` is never killed: leadership is taken from it."""

    def __init__(self, cluster: Cluster, spared: NodeProcess, seed: int) -> None:
        self._cluster = cluster
        self._spared = spared
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._count = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """How many were killed. All nodes are up again afterwards. Raises what went wrong meanwhile."""
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._count

    def _work(self) -> None:
        try:
            self._kill()
        except BaseException as error:
            self._error = error

    def _kill(self) -> None:
        while not self._stopping.wait(self._random.uniform(*BETWEEN_KILLS_S)):
            leader = self._cluster.leader()
            if leader is self._spared:
                self._transfer()
                continue
            leader.kill()
            self._count += 1
            self._stopping.wait(self._random.uniform(*BETWEEN_KILLS_S))
            leader.start()
            self._cluster.wait(f"{leader.id} is ready", leader.ready)

    def _transfer(self) -> None:
        try:
            self._spared.request("POST", "/v1/cluster/leader", {})
        except (OSError, HTTPException):
            pass  # it is asked again


class Tokens(NamedTuple):
    """What is sent, and what makes jobs where that may not."""

    sent: str
    admin: str
    ids: str  # of both


def _guard(node: NodeProcess, role: str) -> Tokens:
    """Tokens are required from now on. Failures are not counted: each call is made without a good token, too, and has
    to be answered 401 then."""

    def ask(method: str, path: str, body: dict[str, Any], token: str = "") -> Any:
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        done = node.request(method, path, body, sent)
        assert done.status < 300, (path, done.status, done.body)
        return done.json

    admin = ask("POST", "/v1/tokens", {"name": "fuzz-root", "role": "admin"})
    ask("PATCH", "/v1/cluster/settings", {"failures_per_address": 1_000_000, "rate_per_address": 0})
    ask("PUT", "/v1/cluster/access", {"required": True}, admin["secret"])
    sent = ask("POST", "/v1/tokens", {"name": "fuzz", "role": role}, admin["secret"])
    return Tokens(sent["secret"], admin["secret"], f"{admin['id']},{sent['id']}")


def _schemathesis(
    node: NodeProcess,
    operations: list[str],
    phases: list[str],
    seconds: int,
    examples: int,
    seed: int,
    kills: bool,
    tokens: Tokens | None,
    left_out: str = "",
) -> bool:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "scripts/trials/schemathesis.toml"]
    command += ["run", f"http://127.0.0.1:{node.http_port}/openapi.json", "--checks", "all", "--seed", str(seed)]
    command += ["--max-examples", str(examples), "--phases", ",".join(phases), "--continue-on-failure", "--no-color"]
    command += ["--suppress-health-check", "all", "--request-timeout", "30", "--generation-database", "none"]
    command += ["--warnings", "off"]
    if left_out:
        command += ["--exclude-checks", left_out]
    if tokens is not None:
        command += ["--header", f"Authorization: Bearer {tokens.sent}"]
    if seconds:
        command += ["--max-time", str(seconds)]
    for name in operations:
        command += ["--include-operation-id", name]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "scripts.trials.fuzz_hooks",
        "PYTHONPATH": str(ROOT),
        "FUZZ_KILLS": "1" if kills else "",
        "FUZZ_MAKER": "" if tokens is None else tokens.admin,
        "FUZZ_KEPT": "" if tokens is None else tokens.ids,
    }
    began = time.monotonic()
    code = subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode
    print(f"{time.monotonic() - began:.0f} s, exit code {code}", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main())
