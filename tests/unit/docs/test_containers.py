"""deploy/docker: the image and the three nodes of Compose are what docs/containers.md says."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from raftsched.config.node import NodeConfig, load
from raftsched.config.reading import default_of
from raftsched.config.worker import SETTINGS as WORKER_SETTINGS
from raftsched.config.worker import load_worker
from raftsched.embedded.systemd import STOP_SLACK_S
from raftsched.security.keyring import own_key
from raftsched.security.private import make_private
from tests.support.named import wrong_in_command

ROOT = Path(__file__).parents[3]
HERE = ROOT / "deploy" / "docker"
DOCKERFILE = (HERE / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((HERE / "compose.yaml").read_text())
ALL: dict[str, dict[str, Any]] = COMPOSE["services"]
SERVICES = {name: service for name, service in ALL.items() if service["command"][0] == "node"}
WORKERS = {name: service for name, service in ALL.items() if service["command"][0] == "worker"}
PAGE = (ROOT / "docs" / "containers.md").read_text()


def last_stage() -> dict[str, str]:
    """The instructions of the image itself, by their names."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.rpartition("FROM scratch\n")[2])
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: rest for name, _, rest in (line.partition(" ") for line in lines)}


def config_of(name: str, tmp_path: Path) -> NodeConfig:
    """The settings of a service, with a key where its secret would be."""
    service = SERVICES[name]
    own_key(tmp_path)
    assert service["command"] == ["node", "--id", name]
    environment = {**service["environment"], "RAFTSCHED_DATA": str(tmp_path / "data")}
    assert environment["RAFTSCHED_CLUSTER_KEY_FILE"] == f"/run/secrets/{service['secrets'][0]}"
    return load({"id": name}, {**environment, "RAFTSCHED_CLUSTER_KEY_FILE": str(tmp_path / "cluster.key")})


def test_the_image_is_not_root_and_says_whether_it_lives() -> None:
    image = last_stage()
    user, group = image["USER"].split(":")
    assert user == group
    assert int(user) > 1000, "a number: runAsNonRoot cannot tell what a name stands for"
    assert f"--uid {user} --gid {group}" in DOCKERFILE
    assert f"-g {group} -m 0640" in PAGE
    _, _, check = image["HEALTHCHECK"].partition("CMD ")
    command = json.loads(check)
    assert command[:3] == ["raftsched", "health", "--live"], "never whether there is a leader: see docs/containers.md"
    (data,) = re.findall(r"RAFTSCHED_DATA=(\S+)", image["ENV"])
    assert command[-1] == data
    assert json.loads(image["ENTRYPOINT"]) == ["tini", "-s", "--", "raftsched"]
    assert not wrong_in_command(" ".join(command))
    assert image["EXPOSE"] == "7401 7501"


def test_the_system_below_it_is_named_by_its_digest() -> None:
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert images == ["${DEBIAN}", "${DEBIAN}", "scratch"]
    assert re.search(r"^ARG DEBIAN=debian:[a-z-]+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)


def test_nothing_of_a_checkout_gets_into_it_but_the_wheel_and_the_lock() -> None:
    ignored = (HERE / "Dockerfile.dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    assert copied == ["requirements.lock dist/raftsched-*.whl", "deploy/docker/import_all.py"]
    assert ignored == ["*", *(f"!{name}" for name in " ".join(copied).split())]
    assert "rm /tmp/import_all.py" in DOCKERFILE


def test_what_is_left_out_is_in_the_lock() -> None:
    """Or the step that takes it out would fail, or take out nothing."""
    lock = (ROOT / "requirements.lock").read_text()
    (step,) = re.findall(r"^RUN rm (packages.*?) \\$", DOCKERFILE, re.MULTILINE)
    for name in re.findall(r"packages/(\w+)-\*", step):
        assert re.search(rf"^{name.replace('_', '-')}==", lock, re.MULTILINE), name


def test_modules_may_lack_what_belongs_to_extras_alone() -> None:
    """What modules import at their top is a dependency, or of an extra that an image may be built without."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (names,) = re.findall(r"OF_EXTRAS = (\{.*?\})", (HERE / "import_all.py").read_text())
    for name in ast.literal_eval(names):
        assert any(needed.startswith(name) for needed in (*extras["s3"], *extras["otel"], *extras["mcp"])), name


def test_hadolint_has_nothing_against_it() -> None:
    command = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([command, HERE / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_a_node_of_the_three(name: str, tmp_path: Path) -> None:
    config = config_of(name, tmp_path)
    assert set(config.peers) == set(SERVICES)
    assert str(config.advertise_raft) == f"{name}:7501"
    assert str(config.advertise_http) == f"{name}:7401", "other nodes ask it there for output"
    assert config.guarded
    for peer, address in config.peers.items():
        assert address.host == peer, "the name of its service"


def test_services_are_alike_but_for_their_names_and_ports() -> None:
    own = [{key: service[key] for key in ("command", "ports", "volumes")} for service in SERVICES.values()]
    shared = [
        {k: v for k, v in service.items() if k not in ("command", "ports", "volumes")} for service in SERVICES.values()
    ]
    assert shared[0] == shared[1] == shared[2]
    assert len({json.dumps(one) for one in own}) == 3
    volumes = [volume.partition(":")[0] for one in own for volume in one["volumes"]]
    assert sorted([*volumes, *WORKERS]) == sorted(COMPOSE["volumes"])
    for one in own:
        (port,) = one["ports"]
        assert re.fullmatch(r"127\.0\.0\.1:740[123]:7401", port), "plain HTTP: for this machine alone"
        (volume,) = one["volumes"]
        assert volume.endswith(":/var/lib/raftsched")


def test_a_service_has_no_more_rights_and_no_less_time_than_it_needs() -> None:
    service = SERVICES["n1"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert float(service["stop_grace_period"].removesuffix("s")) > default_of("grace") / 1000 + STOP_SLACK_S
    command = service["healthcheck"]["test"]
    assert command[:3] == ["CMD", "raftsched", "health"]
    assert "--live" not in command, "up --wait waits for the cluster"
    assert not wrong_in_command(" ".join(command[1:]))
    for key in ("stop_grace_period", "read_only", "cap_drop", "ulimits", "restart", "ports"):
        assert f"`{key}" in PAGE, key


def test_no_job_runs_where_the_key_is(tmp_path: Path) -> None:
    for name in SERVICES:
        assert config_of(name, tmp_path).executors == ("http",), "events are delivered by nodes"
    assert len(WORKERS) == 2
    for name, service in WORKERS.items():
        assert service["secrets"] == ["worker_token"]
        assert service["networks"] == ["jobs"]
        assert service["profiles"] == ["workers"], "there is no token before there is an admin"
        token = tmp_path / "token"
        token.write_text("rs_x\n")
        said = {**service["environment"], "RAFTSCHED_TOKEN_FILE": str(token)}
        config = load_worker({"name": service["command"][2]}, said)
        assert config.name == name
        assert config.runs.jobs_as_node
        assert [f"http://{node}:7401" for node in SERVICES] == [str(server) for server in config.servers]
        assert said.pop("RAFTSCHED_INSECURE") == "true"
        assert said.keys() <= {f"RAFTSCHED_{name.upper()}" for name in WORKER_SETTINGS}
        for key in ("read_only", "cap_drop", "security_opt", "ulimits", "stop_grace_period"):
            assert service[key] == SERVICES["n1"][key]


def test_a_directory_below_the_volume_is_the_nodes_own(tmp_path: Path) -> None:
    """The root of a volume may be of root, and for a group."""
    tmp_path.chmod(0o2775)
    data = tmp_path / "data"
    data.mkdir()
    make_private(data)
    assert data.stat().st_mode & 0o777 == 0o700
