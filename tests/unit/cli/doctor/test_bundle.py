"""`raftsched doctor --bundle`: one file for who is to help, with nothing in it that is secret."""

from __future__ import annotations

import json
import os
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from raftsched.cli.doctor import bundle as bundles
from raftsched.cli.doctor import log_lines
from raftsched.cli.doctor.hiding import lines_without_secrets, without_secrets
from raftsched.cli.failures import Failure
from raftsched.errors import Exit
from tests.support.stub_server import Request, problem, serve
from tests.unit.cli.house import run

SECRETS = (
    "rs_" + "A" * 43,
    "rl_" + "b" * 43,
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    "hunter22",
    "0123456789abcdef" * 4,
    "T0PS3CRET",
)
LINES = [
    f"Authorization: Bearer {SECRETS[0]}",
    f"token {SECRETS[1]} was shown",
    f'{{"secret": "{SECRETS[2]}"}}',
    f"Bearer {SECRETS[3]}",
    f"password={SECRETS[4]} db=x",
    f"key {SECRETS[5]} of the file",
    f"https://user:{SECRETS[6]}@example.com/x https://hooks.example.com/y?key={SECRETS[6]}",
    f"API_KEY: {SECRETS[4]}, SMTP_PASSWORD='{SECRETS[4]}'",
    json.dumps({"message": f'{{"password": "{SECRETS[4]}"}}', "client_secret": SECRETS[4], "level": "info"}),
]


def parts(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        found = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name: one.read().decode() for name, one in found.items() if one is not None}


@pytest.fixture(autouse=True)
def no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_journal", lambda: None)


def answer(url: list[str], asked: list[str]) -> Any:
    def answered(request: Request) -> tuple[int, Any]:
        asked.append(request.path)
        path = request.path.partition("?")[0]
        if path == "/v1/cluster":
            return 200, {"nodes": [{"id": "n1", "http": url[0].removeprefix("http://")}, {"id": "n2", "http": ""}]}
        if path == "/v1/cluster/doctor":
            item = {"check": "disk", "state": "warn", "detail": LINES[6], "do": None, "nodes": []}
            return 200, {"state": "warn", "node": "n1", "items": [item]}
        if path == "/metrics":
            return 200, "\n".join(["raftsched_raft_term 3.0", *LINES]).encode()
        if path == "/v1/workers":
            return problem(403, "forbidden", "Not for you.")
        return 200, {"items": LINES, "next": None}

    return answered


def bundle(tmp_path: Path, *words: str) -> tuple[dict[str, str], list[str]]:
    url, asked = [""], list[str]()
    (tmp_path / "node.log").write_text("\n".join(LINES))
    with serve(answer(url, asked)) as stub:
        url[0] = stub.url
        file = tmp_path / "b.tar.gz"
        result = run("--server", stub.url, "doctor", "--bundle", str(file), "--log", str(tmp_path / "node.log"), *words)
    assert result.exit_code == 0, result.output
    assert file.stat().st_mode & 0o777 == 0o600
    return parts(file), asked


def test_what_is_in_it(tmp_path: Path) -> None:
    found, asked = bundle(tmp_path)
    assert set(found) == {
        f"raftsched/{name}"
        for name in (
            *("README.txt", "doctor.json", "versions.json", "log.txt", "cluster.json", "cluster-settings.json"),
            *("cluster-terms.json", "cluster-members.json", "nodes.json", "workers.json", "queues.json"),
            *("metrics/n1.txt", "metrics/n2.txt"),
        )
    }
    assert "raftsched_raft_term 3.0" in found["raftsched/metrics/n1.txt"]
    assert "unanswered" in found["raftsched/metrics/n2.txt"], "it is said why it is not there"
    assert "Not for you." in found["raftsched/workers.json"]
    assert {item["check"] for item in json.loads(found["raftsched/doctor.json"])} >= {"disk", "reachable", "log-lines"}
    assert not any(path.startswith(("/v1/jobs", "/v1/instances", "/v1/stats")) for path in asked)


def test_no_secret_is_in_it(tmp_path: Path) -> None:
    for words in ((), ("--with-jobs",)):
        (tmp_path / "b.tar.gz").unlink(missing_ok=True)
        found, _ = bundle(tmp_path, *words)
        for name, text in found.items():
            for secret in SECRETS:
                assert secret not in text, name
    assert "example.com/x" in found["raftsched/log.txt"], "all else is there"


def test_jobs_only_when_they_are_asked_for_and_not_what_they_run(tmp_path: Path) -> None:
    found, asked = bundle(tmp_path, "--with-jobs")
    assert "raftsched/jobs.json" in found
    (query,) = [path for path in asked if path.startswith("/v1/jobs")]
    fields = query.partition("fields=")[2].partition("&")[0]
    assert "name" in fields
    assert not any(word in fields for word in ("handler", "params", "env", "description", "labels", "error"))


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    with serve(lambda request: (200, {"nodes": [], "items": []})) as stub:
        words = ("--server", stub.url, "doctor", "--bundle", str(tmp_path / "b.tar.gz"))
        result = run(*words)
        assert (result.exit_code, "not overwritten" in result.stderr) == (int(Exit.CONFLICT), True)
        assert run("--server", stub.url, "doctor", "--with-jobs").exit_code == 2
        assert run(*words[:-1], str(tmp_path / "none" / "b")).exit_code != 0
    assert (tmp_path / "b.tar.gz").read_text() == "mine"


def test_of_one_node(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(f'id = "n1"\ndata = "{tmp_path}/data"\n')
    file = tmp_path / "b.tar.gz"
    run("doctor", "--config", str(tmp_path / "node.toml"), "--bundle", str(file))
    found = parts(file)
    assert set(found) == {
        f"raftsched/{name}" for name in ("README.txt", "doctor.json", "versions.json", "node-settings.json")
    }
    assert json.loads(found["raftsched/node-settings.json"])["id"] == "n1"


@pytest.mark.parametrize(
    "text",
    [
        "n1 leads term 7",
        "cluster 0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "raftsched_tls_certificate_days_left 80.0",
        "http://10.0.0.1:7401/v1/cluster",
        "5 tokens: none expires",
        "say who asks: RAFTSCHED_TOKEN, --token, or a context",
        "--tls-cert and --tls-key for the node; with a proxy in front",
        "Linux-6.1.0-18-cloud-amd64-x86_64-with-glibc2.36",
        "/var/lib/Raftsched1/store/with/a/long/path/of/many/directories/log/data.mdb",
        'raftsched_node_info{executors="process,shell",http="10.0.0.1:7401",raft="10.0.0.1:7402"} 1.0',
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert without_secrets(text) == text


S = "Sup3rS3cretValue99"
BASE64 = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY3ODkwYWI="
PEM = ["-----BEGIN PRIVATE KEY-----", f"MIIEvQIBADANBgkqhkiG9w0BAQE{S}", f"{S}{S}", "-----END PRIVATE KEY-----"]


@pytest.mark.parametrize(
    "text",
    [
        f"AWS_SECRET_ACCESS_KEY={S}/abc+def",
        f"aws_secret_access_key = {S}",
        f"rsi_{S}{S}",
        f"'password': '{S}'",
        f'password="a b {S}"',
        f'password="a \\" b {S}"',
        f"password=ab,{S}",
        f'"{{\\"password\\": \\"a b {S}\\"}}"',
        f'"passphrase": "{S}',
        f'"privateKey":"{S}"',
        f"private_key={S}",
        f"--password {S}",
        f"raftsched --token '{S}' x",
        f"postgres://user:p@{S}@db:5432/x",
        f"postgres://user:a/{S}@db:5432/x",
        f"user:{S}@host",
        f"Cookie: session={S}; other={S}",
        f"Authorization: {S}",
        f"x-auth: {S}",
        f"glpat-{S}xx",
        "\n".join(PEM),
        "\n".join(PEM[:-1]),
        "\n".join(PEM[1:]),
    ],
)
def test_what_is_secret_is_hidden_as_text_and_within_json(text: str) -> None:
    assert S not in without_secrets(text)
    for value in (text, json.dumps({"detail": text}), [{"a": [text]}]):
        raw = bundles._json(value)
        assert S not in raw
        json.loads(raw)
    assert S not in lines_without_secrets([*text.split("\n"), "after"])
    (line,) = lines_without_secrets([json.dumps({"message": text})]).splitlines()
    assert "message" in json.loads(line)
    assert S not in line


def test_keys_that_are_random_are_hidden_wherever_they_are() -> None:
    for text in (f"key {BASE64}", BASE64, BASE64.rstrip("="), f"({BASE64})"):
        assert BASE64[:20] not in without_secrets(text)


def test_fields_that_are_named_so_are_hidden_but_not_names_of_files() -> None:
    found = json.loads(bundles._json({"api_key": S, "token": 7, "tls_key": "/etc/k", "secrets": ["a"]}))
    assert found == {"api_key": "***", "token": 7, "tls_key": "/etc/k", "secrets": ["a"]}


@pytest.mark.parametrize("text", ["-" * 20_000, "a-" * 10_000, "x://" * 5_000, "abcdefgh\n" * 2_000, "a:" * 10_000])
def test_long_texts_of_the_same_take_no_long_time(text: str) -> None:
    without_secrets(text)
    without_secrets(f"{text}@password")


def test_a_file_that_could_not_be_written_whole_is_not_left_there(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")

    class Full(BytesIO):
        def write(self, raw: Any) -> int:
            raise full

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles.os, "fdopen", lambda fd, mode: (os.close(fd), Full())[1])
        with pytest.raises(Failure, match="no space left on device"):
            bundles.write_bundle(tmp_path / "b", [], None, None, None, with_jobs=False)
    assert bundles.write_bundle(tmp_path / "b", [], None, None, None, with_jobs=False) > 0
