"""The scenes, each with the file in which its answers are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.kept.asking import played
from tests.kept.scenes import cluster, everywhere, jobs, meanings, resources, runs

SCENES: dict[str, Callable[[], str]] = {
    "jobs-made": partial(played, jobs.made),
    "jobs-read": partial(played, jobs.read),
    "jobs-changed": partial(played, jobs.changed),
    "jobs-many": partial(played, jobs.many),
    "runs-lived": partial(played, runs.lived),
    "runs-shown": partial(played, runs.shown),
    "workers-bound": partial(played, runs.bound),
    "resources": partial(played, resources.named),
    "secrets": partial(played, resources.hidden),
    "schedules": partial(played, resources.schedules),
    "members": partial(played, cluster.members, nodes=("n1", "n2", "n3")),
    "settings": partial(played, cluster.settings),
    "access": partial(played, cluster.access),
    "locked": partial(played, cluster.locked, guarded=True),
    "metrics": partial(played, cluster.metrics),
    "around": partial(played, cluster.around),
    "everywhere-jobs": partial(played, everywhere.jobs),
    "everywhere-others": partial(played, everywhere.others),
    "meanings": partial(played, meanings.meant),
}
TEXTS = {f"answers/{name}.txt": scene for name, scene in SCENES.items()}
