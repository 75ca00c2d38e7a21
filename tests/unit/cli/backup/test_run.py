"""`backup run`: what it asks nodes for, and what it says. The rounds themselves are tested in tests/unit/backups."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import pytest

from raftsched.backups.making import LogGone, WentBack
from raftsched.cli.backup import run as run_module
from raftsched.cli.cluster.views import named as named_in
from raftsched.cli.failures import Failure
from raftsched.client.http import Client
from raftsched.client.servers import parse_servers
from tests.support import s3
from tests.support.stub_server import Request, Stub, problem, serve
from tests.unit.backups.house import CLUSTER, Saved
from tests.unit.cli.house import run


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Saved]:
    made = Saved(tmp_path / "store")
    made.jobs(3)
    yield made
    made.store.close()


@contextmanager
def node(saved: Saved, tmp_path: Path, broken: Callable[[Request], Any] = lambda request: None) -> Iterator[Stub]:
    """A node that has what was saved; `broken` may answer first."""

    def answer(request: Request) -> tuple[int, Any]:
        path, query = urlsplit(request.path).path, parse_qs(urlsplit(request.path).query)
        if (refused := broken(request)) is not None:
            return refused  # type: ignore[no-any-return]
        if path == "/v1/cluster":
            return 200, {"cluster_id": saved.id}
        assert query["consistency"] == ["leader"], "all that was acknowledged before is in it"
        if path == "/v1/cluster/snapshot":
            file = tmp_path / "state"
            saved.state(file)
            return 200, file.read_bytes()
        try:
            raw, _ = saved.log(int(query["after"][0]))
        except LogGone:
            return problem(410, "log-gone", "It is gone.")
        except WentBack:
            return problem(503, "behind", "This node has applied the log up to entry 5, and not up to 9.")
        return 200 if raw else 204, raw

    with serve(answer, headers={"Raftsched-Index": "1000000"}) as stub:
        yield stub


def test_one_round_says_what_it_added_and_that_it_lies_in_the_clear(saved: Saved, tmp_path: Path) -> None:
    vault = str(tmp_path / "vault")
    with node(saved, tmp_path) as stub:
        first = run("--server", stub.url, "backup", "run", vault)
        assert first.exit_code == 0, (first.stderr, first.exception)
        assert "backed up: a full backup, " in first.stdout
        assert "up to entry 5 of 2025-11-20T" in first.stdout
        assert first.stderr.splitlines() == [
            f"all that {vault} gets can be read by who can read {vault}; --recipient seals it",
            f"{vault} had no backup of this cluster: this is the first one",
        ]
        assert saved.asked == [5], "the node is told what is kept"
        again = run("--server", stub.url, "backup", "run", vault)
        assert "backed up: nothing new, 0 bytes, up to entry 5" in again.stdout
        saved.jobs(1)
        log = run("--server", stub.url, "backup", "run", vault)
        assert "backed up: 1 segment of the log, " in log.stdout
        assert saved.asked == [5, 5, 5, 6, 6]
        saved.jobs(10)
        saved.drop_below(9)
        gap = run("--server", stub.url, "backup", "run", vault, "--verify", "--keep", "0s", "--keep-full", "1")
        assert "no point between the two can be restored" in gap.stderr
        assert "verified: the state after entry 16 was restored, 14 jobs" in gap.stdout
        assert "deleted: 2 files that nothing needs any more" in gap.stdout


def test_nothing_is_deleted_before_the_newest_full_backup_was_verified(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = tmp_path / "vault"
    words = ["backup", "run", str(vault), "--keep", "0s", "--keep-full", "1", "--verify"]

    def fulls() -> list[Path]:
        return sorted(vault.glob("*/full-*"))

    with node(saved, tmp_path) as stub:
        first = run("--server", stub.url, *words)
        assert "verified: the state after entry 5 " in first.stdout, "each full backup is, also where nothing is to go"
        saved.jobs(2)
        real = run_module._verify

        def damaged(*of: Any) -> str:
            raw = fulls()[-1].read_bytes()
            fulls()[-1].write_bytes(raw[:9000] + bytes((raw[9000] ^ 1,)) + raw[9001:])
            return real(*of)

        monkeypatch.setattr(run_module, "_verify", damaged)
        assert run("--server", stub.url, *words, "--full-every", "1m").exit_code == 1
        monkeypatch.setattr(run_module, "_verify", real)
        assert len(fulls()) == 2
        again = run("--server", stub.url, *words)  # of another process, and of no full backup
        assert (again.exit_code, "is damaged" in again.stderr) == (1, True)
        assert len(fulls()) == 2
        fulls()[-1].unlink()
        saved.jobs(2)
        good = run("--server", stub.url, *words, "--full-every", "1m")
        assert "verified: the state after entry 9 " in good.stdout
        assert good.stdout.count("verified:") == 1
        assert [file.name[:21] for file in fulls()] == ["full-0000000000000009"]


def test_to_s3_and_back(saved: Saved, tmp_path: Path) -> None:
    with node(saved, tmp_path) as stub, s3.serving() as service:
        env = service.environment()
        for _ in range(2):
            result = run("--server", stub.url, "backup", "run", "s3://vault/deep", env=env)
            assert result.exit_code == 0, (result.stderr, result.exception)
            saved.jobs(2)
        assert {key.partition("/")[0] for key in service.objects} == {"deep"}
        del env["RAFTSCHED_S3_ENDPOINT"]
        said = run(
            "backup",
            "verify",
            "--unsigned",
            "s3://vault/deep",
            "--s3-endpoint",
            service.endpoint,
            "-o",
            "json",
            env=env,
        )
        assert json.loads(said.stdout)["index"] == 7
        service.fault = lambda asked: 403
        refused = run("backup", "list", "s3://vault/deep", "--s3-endpoint", service.endpoint, env=env)
        assert (refused.exit_code, "AccessDenied" in refused.stderr) == (1, True)


def test_another_node_is_asked_for_a_log_that_one_no_longer_has(saved: Saved, tmp_path: Path) -> None:
    gone = lambda request: problem(410, "log-gone", "Gone.") if "/log?" in request.path else None  # noqa: E731
    with node(saved, tmp_path, gone) as poor, node(saved, tmp_path) as rich:
        servers = f"{poor.url},{rich.url}"
        assert run("--server", servers, "backup", "run", str(tmp_path / "vault")).exit_code == 0
        saved.jobs(1)
        result = run("--server", servers, "backup", "run", str(tmp_path / "vault"))
        assert "backed up: 1 segment of the log" in result.stdout


def test_nodes_that_only_the_cluster_names_are_asked_for_the_log(saved: Saved, tmp_path: Path) -> None:
    saved.jobs(9)
    with node(saved, tmp_path) as rich:

        def answers(request: Request) -> Any:
            if request.path == "/v1/cluster":
                named = [{"id": "n1", "http": None}, {"id": "n2", "http": "ftp://x"}, {"id": "n3", "http": rich.url}]
                return 200, {"cluster_id": saved.id, "nodes": named}
            return problem(410, "log-gone", "Gone.") if "/log?" in request.path else None

        with node(saved, tmp_path, answers) as poor:
            first = run("--server", poor.url, "backup", "run", str(tmp_path / "vault"))
            assert first.exit_code == 0, (first.stderr, first.exception)
            saved.jobs(8)  # of two segments
            poor.requests.clear()
            result = run("--server", poor.url, "backup", "run", str(tmp_path / "vault"))
            assert "backed up: 2 segments of the log" in result.stdout, result.stderr
            asked = [request.path for request in poor.requests if "/log?" in request.path]
            assert len([path for path in asked if "after=14&" in path]) == 2, "as any node, and by its own address"
            assert not [path for path in asked if "after=19&" in path], "the one that had the log is asked at once"


def test_no_node_turns_encryption_off_or_leads_around_a_proxy() -> None:
    view = {"nodes": [{"http": "http://10.0.0.1:7401"}, {"http": "https://10.0.0.2:7401"}]}
    named = lambda given: [str(one) for one in named_in(view, parse_servers(given))]  # noqa: E731
    assert named("http://a:1") == ["http://10.0.0.1:7401", "https://10.0.0.2:7401"]
    assert named("http://a:1,https://b:1") == ["https://10.0.0.2:7401"]
    assert named("https://a:1/raftsched") == []


def test_a_cluster_that_went_back_is_a_conflict(saved: Saved, tmp_path: Path) -> None:
    vault = str(tmp_path / "vault")
    with node(saved, tmp_path) as stub:
        run("--server", stub.url, "backup", "run", vault)
    shorter = Saved(tmp_path / "shorter")
    with node(shorter, tmp_path) as stub:
        result = run("--server", stub.url, "backup", "run", vault)
    assert (result.exit_code, "the cluster lost entries that were backed up" in result.stderr) == (4, True)
    shorter.store.close()


def test_failures_have_the_exit_code_of_their_kind(saved: Saved, tmp_path: Path) -> None:
    vault = str(tmp_path / "vault")
    assert run("--server", "http://127.0.0.1:1", "backup", "run", vault).exit_code == 6
    with node(saved, tmp_path, lambda request: problem(403, "forbidden", "This needs admin.")) as stub:
        assert run("--server", stub.url, "backup", "run", vault).exit_code == 5
    with node(saved, tmp_path, lambda request: (200, {"cluster_id": None})) as stub:
        assert "was not formed yet" in run("--server", stub.url, "backup", "run", vault).stderr
    (tmp_path / "file").write_bytes(b"")
    with node(saved, tmp_path) as stub:
        result = run("--server", stub.url, "backup", "run", str(tmp_path / "file"))
    assert (result.exit_code, "a file is where its directory should be" in result.stderr) == (1, True)
    cut = lambda request: (200, b"half") if "/snapshot" in request.path else None  # noqa: E731
    with node(saved, tmp_path, cut) as stub:
        result = run("--server", stub.url, "backup", "run", vault)
    assert (result.exit_code, "is not a backup of raftsched" in result.stderr) == (1, True)
    assert not list(tmp_path.glob("vault/*/*"))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--every", "1s"], "--every is 10s at the least"),
        (["--every", "soon"], "--every 'soon' is not a duration"),
        (["--full-every", "1s"], "--full-every is 1m at the least"),
        (["--recipient", "me"], "'raftsched keys recipient' prints one"),
        (["--keep-full", "0"], "0 is not in the range"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, words: list[str], text: str) -> None:
    result = run("backup", "run", str(tmp_path / "vault"), *words)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr


def test_a_habit_goes_on_after_a_round_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = click.UsageError("there are no credentials")
    rounds: list[Any] = [None, Failure("no node answers"), None, usage, KeyboardInterrupt(), usage]
    slept: list[float] = []

    def one(client: Client, habit: Any) -> None:
        outcome = rounds.pop(0)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(run_module, "_round", one)
    monkeypatch.setattr(run_module, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(run_module.signal, "signal", lambda *of: None)
    with pytest.raises(KeyboardInterrupt):
        run_module._go_on(Client(parse_servers("http://127.0.0.1:1")), None, 300.0)  # type: ignore[arg-type]
    assert capsys.readouterr().err == "raftsched: no node answers\nraftsched: there are no credentials\n"
    assert len(slept) == 4
    assert all(0 < seconds <= 300 for seconds in slept)
    assert CLUSTER
    with pytest.raises(click.UsageError):  # which no round after it would mend
        run_module._go_on(Client(parse_servers("http://127.0.0.1:1")), None, 300.0)  # type: ignore[arg-type]


def test_a_full_backup_says_what_nothing_leads_to(saved: Saved, tmp_path: Path) -> None:
    vault = str(tmp_path / "vault")
    with node(saved, tmp_path) as stub:
        words = ("--server", stub.url, "backup", "run", vault)
        for _ in range(3):
            run(*words)
            saved.jobs(1)
        (lost, _) = sorted((tmp_path / "vault" / saved.id).glob("log-*"))
        lost.unlink()
        saved.drop_below(8)
        gap = run(*words, "--verify", "--keep", "14d")
        assert gap.exit_code == 0, (gap.stderr, gap.exception)
        assert "no point between the two can be restored" in gap.stderr
        assert "entries 7 to 7 of 2025-11-20T" in gap.stderr
        assert "cannot be restored: entries 6 to 6 before them are missing\n" in gap.stderr
        assert "verified: the state after entry 8 was restored" in gap.stdout
        assert "deleted" not in gap.stdout


def test_a_habit_is_not_ended_by_a_terminal_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[signal.Signals] = [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM]

    def one(client: Client, habit: Any) -> None:
        signal.raise_signal(rounds.pop(0))

    monkeypatch.setattr(run_module, "_round", one)
    monkeypatch.setattr(run_module, "time", SimpleNamespace(sleep=lambda seconds: None))
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        signal.signal(signal.SIGHUP, signal.default_int_handler)  # which is seen, where it is left
        with pytest.raises(SystemExit) as ended:
            run_module._go_on(Client(parse_servers("http://127.0.0.1:1")), None, 300.0)  # type: ignore[arg-type]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (ended.value.code, rounds) == (0, [])
