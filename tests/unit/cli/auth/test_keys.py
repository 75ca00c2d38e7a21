"""`raftsched keys`, and which nodes start without a key file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftsched.cli.main import cli
from raftsched.config.node import build
from raftsched.config.values import Unprotected
from raftsched.security.keyring import KEY_FILE, new_key, read_keyring

PEERS = "n1=127.0.0.1:7501,n2=127.0.0.1:7502,n3=127.0.0.1:7503"


def said(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["keys", *args])
    return result.exit_code, result.output


def test_a_new_key_is_printed_or_written_once(tmp_path: Path) -> None:
    code, first = said("new")
    assert (code, len(first.strip())) == (0, 64)
    assert said("new")[1] != first
    file = tmp_path / "cluster.key"
    before = os.umask(0)
    try:
        code, text = said("new", "--file", str(file))
    finally:
        os.umask(before)
    assert code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    key = file.read_text()
    assert key.strip() not in text
    code, text = said("new", "--file", str(file))
    assert (code, file.read_text()) == (4, key)
    assert "never overwritten" in text
    assert said("new", "--file", str(tmp_path / "nowhere" / "k"))[0] == 1


def test_check_names_keys_without_showing_them(tmp_path: Path) -> None:
    file = tmp_path / "cluster.key"
    first, second = new_key(), new_key()
    file.write_bytes(first + b"\n# the old one\n" + second + b"\n")
    file.chmod(0o644)
    code, text = said("check", str(file))
    assert code == 1
    assert f"chmod 600 {file}" in text
    file.chmod(0o600)
    code, text = said("check", str(file))
    assert code == 0
    assert text == "{}  used\n{}  accepted\n".format(*read_keyring(file).ids())
    assert first.decode() not in text
    file.write_bytes(b"correct-horse-battery\n")
    code, text = said("check", str(file))
    assert code == 1
    assert "raftsched keys new --file" in text


@pytest.mark.parametrize("more", [{"peers": PEERS}, {"peers": "n2=127.0.0.1:7502", "join": True}])
def test_several_nodes_want_a_key_and_one_alone_makes_it(tmp_path: Path, more: dict[str, object]) -> None:
    base = {"id": "n1", "data": str(tmp_path), "raft": "127.0.0.1:7501"}
    assert build(base).cluster_key_file is None
    with pytest.raises(Unprotected, match="--insecure-raft"):
        build({**base, **more})
    assert build({**base, **more, "insecure_raft": True}).insecure_raft
    assert build({**base, **more, "cluster_key_file": "k"}).cluster_key_file == Path("k")
    (tmp_path / KEY_FILE).write_bytes(new_key())  # it was alone before, or was given it there
    assert build({**base, **more}).cluster_key_file is None


def test_a_node_without_what_it_takes_to_be_safe_ends_with_2(tmp_path: Path) -> None:
    args = ["node", "--id", "n1", "--data", str(tmp_path / "d"), "--peers", PEERS]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert "raftsched keys new --file FILE" in result.output
    assert "--insecure-raft" in result.output
    assert not (tmp_path / "d").exists()
