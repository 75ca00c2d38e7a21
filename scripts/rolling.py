"""Entry of scripts/rolling."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.trials.rolling import JOBS, run_rolling
from scripts.trials.upgrade import THIS, Version, later_version, run_upgrade
from tests.golden.releases import RELEASES
from tests.support.cluster import Cluster


def note(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Rolling restarts by SIGTERM under six jobs a second.")
    parser.add_argument("--rounds", type=int, default=1, help="each restarts all three nodes")
    parser.add_argument("--run", type=float, default=3.0, help="seconds that a run takes")
    parser.add_argument("--grace", type=float, default=10.0, help="--grace of the nodes, in seconds")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two nodes")
    parser.add_argument("--upgrade", action="store_true", help="to a later version, back, and to it for good")
    parser.add_argument(
        "--from",
        dest="release",
        choices=[release.version for release in RELEASES],
        help="with --upgrade: from this release to this checkout, and not from here to a made-up version",
    )
    parser.add_argument("--straight", action="store_true", help="with --upgrade: without the way back")
    parser.add_argument("--kill", action="store_true", help="with --upgrade: by SIGKILL, also while a node starts")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), help="of --kill")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-rolling-") as directory:
        flags = ("--grace", f"{args.grace:g}s")
        cluster = Cluster(3, flags=flags, directory=Path(directory), pythonpath=JOBS)
        if not args.upgrade:
            with cluster:
                found = run_rolling(cluster, args.rounds, args.run, args.pause, note)
        else:
            before, after = _versions(args.release, Path(directory) / "other")
            for node in cluster.nodes:
                node.source = before.source
            with cluster:
                kill = random.Random(args.seed) if args.kill else None  # nosec B311
                if args.kill:
                    note(f"seed {args.seed}")
                found = run_upgrade(cluster, before, after, args.run, note, back=not args.straight, kill=kill)
    print(found.summary())
    for line in found.notes:
        print(line)
    for line in found.wrong:
        print(f"WRONG: {line}")
    return 1 if found.wrong else 0


def _versions(version: str | None, directory: Path) -> tuple[Version, Version]:
    if version is None:
        return THIS, later_version(directory)
    (release,) = (one for one in RELEASES if one.version == version)
    source = release.unpack_source(directory)
    if source is None:
        sys.exit(f"this checkout has not the commit {release.commit} that {version} was made of")
    return Version(source, release.level), THIS


if __name__ == "__main__":
    sys.exit(main())
