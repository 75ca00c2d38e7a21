"""Which servers a client asks when nobody names them: as the command line does."""

from __future__ import annotations

from pathlib import Path

import pytest

import raftsched


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RAFTSCHED_SERVER", "RAFTSCHED_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "raftsched"
    directory.mkdir()
    (directory / "contexts.toml").write_text(
        'current = "prod"\n[contexts.prod]\nserver = "http://10.0.0.1:7401"\n[contexts.test]\nserver = "10.0.0.2"\n'
    )
    return directory


def servers() -> list[str]:
    return [str(server) for server in raftsched.AsyncClient().transport.nodes.given]


def test_the_context_in_use() -> None:
    assert servers() == ["http://10.0.0.1:7401"]


def test_the_context_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTSCHED_CONTEXT", "test")
    assert servers() == ["http://10.0.0.2:7401"]
    monkeypatch.setenv("RAFTSCHED_CONTEXT", "nowhere")
    with pytest.raises(LookupError, match="no context 'nowhere'"):
        raftsched.Client()


def test_a_variable_goes_before_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTSCHED_SERVER", "http://10.0.0.3:1,http://10.0.0.4:2")
    assert servers() == ["http://10.0.0.3:1", "http://10.0.0.4:2"]


def test_else_this_machine(home: Path) -> None:
    (home / "contexts.toml").unlink()
    assert servers() == [f"http://127.0.0.1:{port}" for port in (7401, 7402, 7403)]


def test_a_file_that_is_none_is_named(home: Path) -> None:
    (home / "contexts.toml").write_text("contexts = 3")
    with pytest.raises(ValueError, match=r"contexts\.toml is not a list of contexts"):
        raftsched.Client()
