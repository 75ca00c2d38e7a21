"""`backup list`, `show`, `verify` and `restore`, which read a repository; rounds are tested in tests/unit/backups."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.backups.making import Round
from raftsched.backups.repository import Repository, time_text
from raftsched.bounds import MINUTE_MS
from raftsched.errors import StartupError
from raftsched.objectstore.directory import Directory
from raftsched.security.sealed_backup import new_identity
from raftsched.unfinished import require_restored
from tests.unit.backups.house import CLUSTER, Saved
from tests.unit.cli.house import run

ID = CLUSTER.hex()
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Saved]:
    """Three jobs and a backup, three more in the log."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    made = Saved(tmp_path / "store")
    made.world.create(name="first")
    made.jobs(2)
    back_up(made, tmp_path)
    made.world.create(name="last", namespace="ops")
    made.jobs(2)
    back_up(made, tmp_path)
    yield made
    made.store.close()
    assert not list((tmp_path / "tmp").iterdir()), "nothing is left behind"


def back_up(saved: Saved, tmp_path: Path, full_every_ms: int = HOUR_MS, recipient: str | None = None) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    Round(Repository(Directory(tmp_path / "vault"), recipient=recipient), saved, scratch).add(full_every_ms)


def test_list_says_what_can_be_restored(saved: Saved, tmp_path: Path) -> None:
    result = run("backup", "list", str(tmp_path / "vault"), "-o", "json")
    (row,) = json.loads(result.stdout)["items"]
    assert (row["cluster"], row["first"], row["last"], row["segments"]) == (ID, 5, 8, 1)
    assert row["to"] == time_text(saved.at_ms(8))
    assert [full["index"] for full in row["full"]] == [5]
    lines = run("backup", "list", env={"RAFTSCHED_BACKUPS": str(tmp_path / "vault")}).stdout.splitlines()
    assert lines[1].split()[:2] == [ID[:8], "5"]
    empty = run("backup", "list", str(tmp_path / "none"))
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", f"{tmp_path}/none holds no backups\n")


def test_show_has_the_jobs_of_then(saved: Saved, tmp_path: Path) -> None:
    vault = str(tmp_path / "vault")

    def jobs(*more: str) -> list[str]:
        result = run("backup", "show", vault, "-o", "json", *more)
        assert result.exit_code == 0, (result.stderr, result.exception)
        return [job["name"] for job in json.loads(result.stdout)["items"]]

    assert jobs("--at", "5") == ["first", None, None]
    assert jobs() == ["first", None, None, "last", None, None]
    assert jobs("--at", time_text(saved.at_ms(6) + 1)) == ["first", None, None, "last"]
    assert jobs("-N", "ops") == ["last"]
    few = run("backup", "show", vault, "--limit", "2")
    assert (len(few.stdout.splitlines()), "more than 2 jobs" in few.stderr) == (3, True)
    one = json.loads(run("backup", "show", vault, "ops/last").stdout)
    assert (one["name"], one["state"], one["revision"]) == ("last", "SCHEDULED", 1)
    assert json.loads(run("backup", "show", vault, "-N", "ops", "last").stdout) == one
    assert json.loads(run("backup", "show", vault, "first").stdout)["name"] == "first"
    assert run("backup", "show", vault, "last").exit_code == 3, "which of the namespaces?"
    here = {"RAFTSCHED_BACKUPS": vault}
    assert json.loads(run("backup", "show", "ops/last", env=here).stdout) == one
    assert len(json.loads(run("backup", "show", "-o", "json", env=here).stdout)["items"]) == 6
    elsewhere = {"RAFTSCHED_BACKUPS": str(tmp_path / "none")}
    assert len(json.loads(run("backup", "show", vault, "-o", "json", env=elsewhere).stdout)["items"]) == 6
    assert json.loads(run("backup", "show", vault, one["id"], env=elsewhere).stdout) == one
    gone = run("backup", "show", vault, "ops/last", "--at", "5")
    assert (gone.exit_code, gone.stderr) == (3, "raftsched: there was no job 'ops/last'\n")


def test_verify_restores_for_a_trial(saved: Saved, tmp_path: Path) -> None:
    vault = str(tmp_path / "vault")
    said = json.loads(run("backup", "verify", "--unsigned", vault, "-o", "json").stdout)
    assert (said["index"], said["full"], said["segments"], said["jobs"]) == (8, 5, 1, {"SCHEDULED": 6})
    assert (said["compared"], said["missing"]) == (None, [])
    assert "nothing to compare with yet" in run("backup", "verify", "--unsigned", vault).stdout
    saved.jobs(1)
    back_up(saved, tmp_path, 0)
    said = json.loads(run("backup", "verify", "--unsigned", vault, "-o", "json").stdout)
    assert (said["index"], said["full"], said["compared"]) == (9, 9, {"from": 5, "to": 9})
    assert "5 and the log give the same state as 9" in run("backup", "verify", "--unsigned", vault).stdout
    (_, segment) = sorted((tmp_path / "vault" / ID).glob("log-*"))
    segment.unlink()
    assert json.loads(run("backup", "verify", "--unsigned", vault, "-o", "json").stdout)["missing"] == [
        {"from": 9, "to": 9}
    ]
    told = run("backup", "verify", "--unsigned", vault)
    assert (told.exit_code, "9 to 9" in told.stdout, "does not lead here" in told.stdout) == (0, True, True)


@pytest.fixture
def holed(saved: Saved, tmp_path: Path) -> tuple[Path, Path]:
    """Three further segments, of which the first is lost; and where the vault and the lost one are."""
    for _ in range(3):
        saved.jobs(1)
        back_up(saved, tmp_path)
    lost = sorted((tmp_path / "vault" / ID).glob("log-*"))[1]
    return tmp_path / "vault", lost.rename(tmp_path / lost.name)


def test_what_nothing_leads_to_is_listed_and_verified(saved: Saved, holed: tuple[Path, Path], tmp_path: Path) -> None:
    vault, lost = holed
    listed = run("backup", "list", str(vault), "-o", "json")
    said = json.loads(listed.stdout)
    assert [(row["first"], row["last"]) for row in said["items"]] == [(5, 8)]
    (one,) = said["stranded"]
    assert (one["cluster"], one["first"], one["last"], one["segments"], one["size"] > 0) == (ID, 10, 11, 2, True)
    assert (one["from"], one["to"]) == (time_text(saved.at_ms(10)), time_text(saved.at_ms(11)))
    assert one["keys"] == [f"{ID}/{file.name}" for file in sorted((vault / ID).glob("log-*"))[1:]]
    says = f"raftsched: {ID[:8]}: entries 10 to 11 of {one['from']} to {one['to']} (2 segments, "
    tells = (run("backup", "list", str(vault)), run("backup", "verify", "--unsigned", str(vault)))
    for told in (listed, *tells):
        assert told.stderr.startswith(says), told.stderr
        assert told.stderr.endswith(" cannot be restored: entries 9 to 9 before them are missing\n")
    assert [told.exit_code for told in tells] == [0, 1]
    assert ["stranded", "10", "to", "11"] in [line.split() for line in tells[1].stdout.splitlines()]
    verified = run("backup", "verify", "--unsigned", str(vault), "-o", "json")
    found = json.loads(verified.stdout)
    assert (verified.exit_code, found["index"], found["missing"]) == (1, 8, [{"from": 9, "to": 9}])
    assert found["stranded"] == [{"from": 10, "to": 11, "segments": 2, "size": one["size"]}]
    (_, third, _) = sorted((vault / ID).glob("log-*"))
    raw = bytearray(third.read_bytes())
    raw[50] ^= 1
    third.write_bytes(raw)
    damaged = run("backup", "verify", "--unsigned", str(vault))
    assert (damaged.exit_code, str(third) in damaged.stderr) == (1, True), damaged.stderr
    raw[50] ^= 1
    third.write_bytes(raw)
    (vault / ID / lost.name).write_bytes(lost.read_bytes())
    healed = run("backup", "verify", "--unsigned", str(vault), "-o", "json")
    assert (healed.exit_code, healed.stderr, json.loads(healed.stdout)["index"]) == (0, "", 11)


def test_nothing_is_restored_without_a_word_where_later_entries_are_kept(
    holed: tuple[Path, Path], tmp_path: Path
) -> None:
    vault = str(holed[0])
    new = ["--unsigned", "--data", str(tmp_path / "new"), "--id", "n1", "--raft", "127.0.0.1:1"]
    for command in (["restore", vault, *new], ["show", vault]):
        refused = run("backup", *command)
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert refused.stderr == (
            "raftsched: entries 10 to 11 of the log are kept and nothing leads to them, for entries 9 to 9 are missing."
            " Look for another copy, or an earlier version, of what is missing (log-0000000000000009-...); to go on"
            " without them, say --at 8\n"
        )
    assert not (tmp_path / "new").exists()
    knowingly = run("backup", "restore", vault, *new, "--at", "8")
    assert (knowingly.exit_code, "as after entry 8 of" in knowingly.stdout) == (0, True)


def test_a_round_fetches_again_what_was_lost_while_the_log_has_it(
    saved: Saved, holed: tuple[Path, Path], tmp_path: Path
) -> None:
    back_up(saved, tmp_path)
    verified = run("backup", "verify", "--unsigned", str(holed[0]), "-o", "json")
    found = json.loads(verified.stdout)
    assert (verified.exit_code, found["index"], found["missing"], found["stranded"]) == (0, 11, [], [])


def test_a_hole_before_a_later_backup_is_named_and_the_newest_is_restored(
    saved: Saved, holed: tuple[Path, Path], tmp_path: Path
) -> None:
    saved.jobs(1)
    saved.drop_below(12)
    back_up(saved, tmp_path)  # the log is gone: a full backup
    verified = run("backup", "verify", "--unsigned", str(holed[0]), "-o", "json")
    found = json.loads(verified.stdout)
    assert (verified.exit_code, found["index"]) == (1, 12)
    assert found["missing"] == [{"from": 9, "to": 9}, {"from": 12, "to": 12}]
    assert [(one["from"], one["to"]) for one in found["stranded"]] == [(10, 11)]
    assert run("backup", "show", str(holed[0])).exit_code == 0


def test_where_no_full_backup_is_left_it_is_said_what_is(saved: Saved, tmp_path: Path) -> None:
    (full,) = (tmp_path / "vault" / ID).glob("full-*")
    full.unlink()
    vault = str(tmp_path / "vault")
    listed = run("backup", "list", vault)
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "entries 6 to 8 of" in listed.stderr
    assert listed.stderr.endswith("cannot be restored: no backup is kept that they go on from\n")
    verified = run("backup", "verify", "--unsigned", vault)
    assert (verified.exit_code, verified.stderr) == (
        3, "raftsched: there is no full backup, and nothing leads to entries 6 to 8 of the log\n"
    )  # fmt: skip


def test_no_node_begins_while_a_backup_is_fetched(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, data, said = Repository.fetch, tmp_path / "new", []

    def fetched(*args: Any) -> None:
        with pytest.raises(StartupError, match="remove it and restore again"):
            require_restored(data)
        said.append(1)
        fetch(*args)

    monkeypatch.setattr(Repository, "fetch", fetched)
    more = ["--data", str(data), "--id", "n1", "--raft", "127.0.0.1:1", "--due", "skip"]
    result = run("backup", "restore", "--unsigned", str(tmp_path / "vault"), *more)
    assert (result.exit_code, said) == (0, [1]), result.output
    require_restored(data)


def test_restore_makes_a_node_of_a_point_in_time(saved: Saved, tmp_path: Path) -> None:
    vault, new = str(tmp_path / "vault"), ["--id", "n1", "--raft", "127.0.0.1:1"]
    data = str(tmp_path / "new")
    result = run("backup", "restore", "--unsigned", vault, "--at", time_text(saved.at_ms(6)), "--data", data, *new)
    assert result.exit_code == 0, (result.stderr, result.exception)
    assert f"with 4 jobs and 0 runs as after entry 6 of {time_text(saved.at_ms(6))}" in result.stdout
    assert "raftsched cluster members add n2 --wait" in result.stdout
    again = run("backup", "restore", "--unsigned", vault, "--data", data, *new)
    assert (again.exit_code, "is not empty" in again.stderr) == (1, True)
    (full,) = (tmp_path / "vault" / ID).glob("full-*")
    raw = bytearray(full.read_bytes())
    raw[9000] ^= 1
    full.write_bytes(raw)
    damaged = run("backup", "restore", "--unsigned", vault, "--data", str(tmp_path / "other"), *new)
    assert damaged.stderr.startswith(f"raftsched: {full} is damaged: its checksum is another"), damaged.stderr
    assert not (tmp_path / "other").exists()


def test_where_other_files_lead_to_the_same_state_as_one_that_is_damaged_it_is_said(
    saved: Saved, tmp_path: Path
) -> None:
    vault, data = str(tmp_path / "vault"), tmp_path / "new"
    saved.jobs(1)
    back_up(saved, tmp_path, 0)
    (first, second) = sorted((tmp_path / "vault" / ID).glob("full-*"))
    second.write_bytes(second.read_bytes()[:-9])
    commands = [
        ["verify", "--unsigned"],
        ["show"],
        ["restore", "--unsigned", "--data", str(data), "--id", "n1", "--raft", "127.0.0.1:1"],
    ]
    says = "; move it away: the backup of entry 5 and the log lead to the same state\n"
    for name, *words in commands:
        refused = run("backup", name, vault, *words)
        assert (refused.exit_code, refused.stderr.startswith(f"raftsched: {second} is cut off")) == (1, True)
        assert refused.stderr.endswith(says), refused.stderr
    first.unlink()
    for name, *words in commands:
        refused = run("backup", name, vault, *words)
        assert (refused.exit_code, "move it away" in refused.stderr) == (1, False)
    assert not data.exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--at", "4"], 3, "the state after entry 4 cannot be restored; the nearest that can is --at 5"),
        (["--at", "9"], 3, "the nearest that can is --at 8"),
        (["--at", "2001-01-01T00:00:00Z"], 3, "all that is kept is of later; the oldest state is of 2025-11-20T"),
        (["--at", "2026-01-31T14:00:00"], 2, "neither the index of an entry nor a time such as"),
        (["--at", "yesterday"], 2, "neither the index of an entry nor a time such as"),
        (["--cluster", "02"], 3, "holds none of the cluster 02; it has 01010101"),
    ],
)
def test_points_that_there_are_not_are_one_line(
    saved: Saved, tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    result = run("backup", "show", str(tmp_path / "vault"), *words)
    assert (result.exit_code, text in result.stderr) == (code, True), result.stderr


def test_places_that_hold_nothing_or_too_much_are_one_line(saved: Saved, tmp_path: Path) -> None:
    none = run("backup", "verify", "--unsigned", str(tmp_path / "none"))
    assert (none.exit_code, none.stderr) == (3, f"raftsched: {tmp_path}/none holds no backups of raftsched\n")
    (tmp_path / "vault" / ID).rename(tmp_path / "vault" / "kept")
    for cluster in ("0a" * 16, "0b" * 16):
        (tmp_path / "vault" / cluster).mkdir()
        for file in (tmp_path / "vault" / "kept").iterdir():
            (tmp_path / "vault" / cluster / file.name).write_bytes(file.read_bytes())
    two = run("backup", "verify", "--unsigned", str(tmp_path / "vault"))
    assert "holds backups of 2 clusters (0a0a0a0a, 0b0b0b0b); say --cluster" in two.stderr
    other = run("backup", "verify", "--unsigned", str(tmp_path / "vault"), "--cluster", "0a")
    assert "holds the state after entry 5 of 0101" in other.stderr, "a file under another's name"
    assert run("backup", "verify", "--unsigned", "gs://x").exit_code == 2


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("tables: No space left on device")]
)
@pytest.mark.parametrize("command", [["verify", "--unsigned"], ["show"]])
def test_a_temporary_directory_that_is_full_is_named(
    saved: Saved, tmp_path: Path, command: list[str], error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("raftsched.store.snapshot.unpack", full)
    result = run("backup", *command, str(tmp_path / "vault"))
    says = f"no space left in {tmp_path}/tmp, which gets the whole state: set TMPDIR to where there is more"
    assert (result.exit_code, result.stderr) == (1, f"raftsched: {says}\n")


class _Unheeded(Exception):
    pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "words", [["verify", "--unsigned"], ["show"], ["restore", "--unsigned", "--id", "n1", "--raft", "127.0.0.1:1"]]
)
def test_who_is_told_to_end_leaves_nothing_behind(
    saved: Saved, tmp_path: Path, words: list[str], number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unheeded(*_: object) -> None:
        raise _Unheeded

    def end(*_: object, **__: object) -> None:
        signal.raise_signal(number)

    before = signal.signal(number, unheeded)
    try:
        monkeypatch.setattr("raftsched.store.backup.contents", end)
        data = ["--data", str(tmp_path / "new")] if words[0] == "restore" else []
        result = run("backup", words[0], str(tmp_path / "vault"), *words[1:], *data)
        assert result.exit_code == 128 + number, result.exception
        assert signal.getsignal(number) is unheeded
    finally:
        signal.signal(number, before)
    assert not (tmp_path / "new").exists()


def test_sealed_ones_need_the_identity(saved: Saved, tmp_path: Path) -> None:
    identity, recipient = new_identity()
    file = tmp_path / "identity"
    file.write_text(identity)
    file.chmod(0o600)
    saved.jobs(1)
    back_up(saved, tmp_path, 0, recipient)
    vault = str(tmp_path / "vault")
    refused = run("backup", "verify", "--unsigned", vault)
    assert (refused.exit_code, "is sealed; say --identity FILE" in refused.stderr) == (1, True)
    assert run("backup", "verify", "--unsigned", vault, "--identity", str(file)).exit_code == 0
