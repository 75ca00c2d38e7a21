"""A data directory is its owner's alone, whatever it was and whatever the umask is."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftsched.errors import StartupError
from raftsched.output.keeping.store import OutputStore
from raftsched.raft.snapshots.files import clear
from raftsched.security.local_token import LocalToken, read_local_token, read_local_url
from raftsched.security.private import make_private
from raftsched.store.store import Store
from raftsched.worker.session.kept_ends import KeptEnds


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {str(p.relative_to(directory)): stat.S_IMODE(p.stat().st_mode) for p in directory.rglob("*")}


def wide(directory: Path) -> dict[str, str]:
    return {name: oct(mode) for name, mode in modes(directory).items() if mode & 0o077}


@pytest.mark.usefixtures("no_umask")
def test_what_a_node_makes_is_for_its_owner_without_a_umask(tmp_path: Path) -> None:
    Store.open(tmp_path / "store", sync=False).close()
    OutputStore(tmp_path / "output").close()
    clear(tmp_path / "snapshots")
    LocalToken().write(tmp_path, "http://127.0.0.1:7401")
    KeptEnds(tmp_path / "ends", b"store").write([b"end"])
    assert len(modes(tmp_path)) >= 10
    assert wide(tmp_path) == {}


def test_the_secret_is_alone_in_its_file(tmp_path: Path) -> None:
    token = LocalToken()
    token.write(tmp_path, "http://127.0.0.1:7401")
    assert (read_local_token(tmp_path), read_local_url(tmp_path)) == (token.secret, ("http://127.0.0.1:7401", ""))
    assert (tmp_path / "local.token").read_text() == f"{token.secret}\n"
    token.write(tmp_path, "https://n1:7401", "/etc/ca.pem")
    assert read_local_url(tmp_path) == ("https://n1:7401", "/etc/ca.pem")
    assert read_local_url(tmp_path / "none") == ("", "")


def test_what_is_wide_is_narrowed_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    (data / "store").mkdir(parents=True)
    (data / "output" / "live").mkdir(parents=True)
    for path in (data, data / "store", data / "output", data / "output" / "live"):
        path.chmod(0o755)
    (data / "store" / "data.mdb").touch()
    (data / "store" / "data.mdb").chmod(0o644)
    (data / "mine").touch()
    (data / "mine").chmod(0o644)
    (data / "snapshots").symlink_to(tmp_path)
    before = tmp_path.stat().st_mode
    with caplog.at_level(logging.WARNING):
        make_private(data)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert wide(data / "store") == wide(data / "output") == {}
    assert stat.S_IMODE((data / "mine").stat().st_mode) == 0o644, "no file of the node"
    assert tmp_path.stat().st_mode == before, "a link leads elsewhere"
    (record,) = caplog.records
    assert "and 4 more" in record.getMessage()
    caplog.clear()
    make_private(data)
    assert caplog.records == []


def test_a_directory_that_users_share_is_no_data_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(StartupError, match="one that users share"):
        make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o775, True), (0o755, False)])
def test_a_directory_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int, refused: bool
) -> None:
    tmp_path.chmod(mode)

    def chmod(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    monkeypatch.setattr(Path, "chmod", chmod)
    if refused:
        with pytest.raises(StartupError, match="chmod 700"):
            make_private(tmp_path)
    else:
        make_private(tmp_path)
        assert "not this user's" in caplog.text
