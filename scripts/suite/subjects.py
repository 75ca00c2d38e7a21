"""Which tests a change needs, by the folders of what was changed. CONTRIBUTING.md shows this table.

Tests below tests/unit, integration, property and the like are also found by what they import (selection.py). Those of
tests/e2e start whole nodes, which import everything, and are found by this table alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    """`paths` end in "/" where they are folders. `by_hand` is for a person: longer trials, as Markdown."""

    paths: tuple[str, ...]
    tests: tuple[str, ...]
    by_hand: str = ""


def _e2e(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/e2e/test_{name}.py" for name in names)


DESIGN = "DESIGN.md"  # of any room: a document, whatever the folder that it is in

SUBJECTS = (
    Subject(
        ("raftsched/core/",),
        ("tests/golden", "tests/property", "tests/unit/core/test_apply_cost.py"),
        "`./scripts/simulate --jobs`",
    ),
    Subject(("raftsched/schedule/", "raftsched/crontabs/"), ("tests/property", *_e2e("crontabs"))),
    Subject(("raftsched/store/",), ("tests/unit/store", "tests/integration/raft"), "`./scripts/simulate`"),
    Subject(
        ("raftsched/backups/", "raftsched/objectstore/"),
        ("tests/unit/backups", "tests/unit/cli/backup", "tests/unit/objectstore", *_e2e("backup")),
    ),
    Subject(
        ("raftsched/raft/",),
        ("tests/unit/raft", "tests/integration/raft", "tests/mutants", "tests/sim", *_e2e("faults", "membership")),
        "`./scripts/simulate` for some minutes, `./scripts/mutate`",
    ),
    Subject(
        ("raftsched/leader/",),
        ("tests/unit/leader", "tests/sim/jobs", *_e2e("faults", "queues", "conditions")),
        "`./scripts/simulate --jobs`, `./scripts/bench burst`",
    ),
    Subject(
        ("raftsched/worker/",),
        ("tests/unit/worker", "tests/integration", "tests/sim/jobs", *_e2e("jobs_run", "whose_hands")),
        "`./scripts/endurance`, `./scripts/freeze`",
    ),
    Subject(
        ("raftsched/remote/",),
        ("tests/unit/remote", "tests/sim/jobs", *_e2e("workers", "workers_shown", "worker_protocol")),
        "`./scripts/bench workers --seconds 60`, `./jepsen-like/run.py --workers 20 --run-on workers` for some minutes",
    ),
    Subject(
        ("raftsched/celery/",),
        ("tests/unit/celery", *_e2e("celery")),
        "`./scripts/beats`",
    ),
    Subject(
        ("raftsched/output/",),
        ("tests/unit/output", "tests/integration/api/runs", *_e2e("output_store", "workers", "shipping")),
    ),
    Subject(("raftsched/notices/",), ("tests/unit/notices", *_e2e("notifications", "webhooks"))),
    Subject(("raftsched/system/",), ("tests/unit/system",)),
    Subject(("raftsched/tracing/",), ("tests/unit/tracing", *_e2e("tracing"))),
    Subject(
        ("raftsched/security/",),
        ("tests/unit/security", "tests/integration/embedded/test_key_rotation.py", *_e2e("tls", "between_nodes")),
    ),
    Subject(("raftsched/config/",), ("tests/unit/config", *_e2e("startup"))),
    Subject(
        ("raftsched/node/", "raftsched/embedded/", "raftsched/testing/"),
        ("tests/integration/embedded", *_e2e("startup", "shut", "faults", "jobs_run")),
    ),
    Subject(
        ("raftsched/apscheduler/", "raftsched/importers/apscheduler/"),
        ("tests/unit/importers", "tests/property/test_apscheduler.py", *_e2e("apscheduler")),
    ),
    Subject(("raftsched/starlette/",), ("tests/integration/embedded", *_e2e("fastapi", "tutorials"))),
    Subject(("raftsched/django/",), ("tests/integration/django", *_e2e("django", "tutorials"))),
    Subject(("raftsched/doctor/",), ("tests/unit/doctor", "tests/unit/cli/doctor", *_e2e("watch"))),
    Subject(("examples/",), _e2e("workers", "worker_protocol", "webshop", "django", "examples")),
    Subject(
        ("raftsched/surface/", "scripts/make_client.py"),
        (
            "tests/kept",
            "tests/unit/surface",
            "tests/unit/api",
            "tests/unit/client",
            "tests/integration/api",
            *_e2e("sdk", "api_model"),
        ),
        "`./scripts/make-client`",
    ),
    Subject(
        ("raftsched/api/",),
        ("tests/kept", "tests/unit/api", "tests/integration/api", *_e2e("fuzz_api", "api_model", "sdk", "tls")),
        "`./scripts/fuzz-api`; `./scripts/bench create` where every request passes",
    ),
    Subject(
        ("raftsched/client/", "raftsched/handlers.py", "raftsched/run.py"),
        ("tests/kept", "tests/unit/client", *_e2e("sdk", "webshop")),
        "`./scripts/make-client`, `./scripts/make-sync`",
    ),
    Subject(("raftsched/importers/",), ("tests/unit/importers",)),
    Subject(("raftsched/cli/",), ("tests/kept", "tests/unit/cli", "tests/unit/docs", *_e2e("examples"))),
    Subject(("raftsched/ui/",), ("tests/unit/ui", "tests/e2e/browser"), "`./scripts/bench page`"),
    Subject(
        ("deploy/", "scripts/make_chart.py"),
        ("tests/unit/docs", *_e2e("kubernetes", "virtual_machines", "proxies", "systemd", "watch")),
        "`./scripts/make-chart`",
    ),
    Subject(("raftsched/metrics.py", "raftsched/samples.py"), ("tests/unit/docs", *_e2e("watch"))),
    Subject(("pyproject.toml", "requirements.lock", "scripts/build.py", "hatch_build.py"), _e2e("packages", "startup")),
    Subject(
        (
            *("docs/", "README.md", "ARCHITECTURE.md", DESIGN, "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
            "mkdocs.yml",
        ),
        ("tests/unit/docs", *_e2e("examples", "runs_by_example")),
        "`./scripts/docs`",
    ),
    Subject(("scripts/bench", "scripts/benches/"), ("tests/unit/benches", *_e2e("bench", "bench_command"))),
    Subject(("scripts/trials/", "scripts/fuzz_api.py"), ("tests/unit/trials", *_e2e("fuzz_api"))),
    Subject(("scripts/website/",), ("tests/unit/docs",)),
    Subject(("scripts/suite/", "scripts/test"), ("tests/unit/suite",)),
    Subject(("jepsen-like/",), ("tests/unit/harness",)),
    Subject(("tests/golden/",), ("tests/golden",)),
    Subject(("tests/kept/",), ("tests/kept",)),
    Subject(("tests/data/",), ("tests/unit/crontabs", "tests/unit/docs", "tests/integration/api")),
)

# They concern everything: a change of one runs all tests.
EVERYTHING = ("tests/conftest.py", "scripts/venv.sh", ".ci/run")
# They concern no test.
NOTHING = ("LICENSE", ".gitignore", "tests/durations.json", "tests/parts.json")


def table() -> str:
    """Returns the table of CONTRIBUTING.md."""
    rows = ["| you changed | `./scripts/test changed` adds to what imports it | and by hand |", "|---|---|---|"]
    for subject in SUBJECTS:
        paths = ", ".join(f"`{path.removeprefix('raftsched/')}`" for path in subject.paths)
        rows.append(f"| {paths} | {', '.join(_short(subject.tests))} | {subject.by_hand} |")
    return "\n".join(rows)


def _short(tests: tuple[str, ...]) -> list[str]:
    """Returns the places as Markdown, those of tests/e2e with their common beginning said once."""
    begin = "tests/e2e/test_"
    files = [test.removeprefix(begin).removesuffix(".py") for test in tests if test.startswith(begin)]
    places = [f"`{test}`" for test in tests if not test.startswith(begin)]
    if files:
        names = files[0] if len(files) == 1 else "{" + ",".join(files) + "}"
        places.append(f"`tests/e2e/test_{names}.py`")
    return places
