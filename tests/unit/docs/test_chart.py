"""deploy/helm: the chart has the objects of deploy/kubernetes, they are valid, and it refuses values that do harm."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import make_chart
from tests.support.helm import CHART, MINIMAL, Helm, Refused
from tests.support.manifests import NAMESPACE, container_of, environment, errors_of, kustomized, pod_of

PAGE = (CHART.parents[2] / "docs" / "kubernetes.md").read_text()
EXAMPLES = sorted((CHART / "ci").glob("*-values.yaml"))
METRICS = CHART.parents[2] / "raftsched" / "api" / "cluster" / "scaling_metrics.py"
# Labels that only the chart's objects have: releases are told apart by them.
OWN_LABELS = {
    "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart",
    "raftsched-pool",
}  # fmt: skip
Named = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def helm() -> Iterator[Helm]:
    with Helm() as found:
        yield found


def values_of(example: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(example.read_text())
    return found


def named(objects: list[dict[str, Any]]) -> Named:
    found = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(found) == len(objects), "two objects have one name"
    return found


def with_values(**values: Any) -> dict[str, Any]:
    return {**MINIMAL, **values}


# Without Helm


def test_what_is_made_is_what_make_chart_writes() -> None:
    values = (CHART / "values.yaml").read_text()
    for name, written in (
        ("Chart.yaml", make_chart.with_versions),
        ("values.schema.json", make_chart.with_settings),
        ("README.md", lambda text: make_chart.with_table(text, values)),
    ):
        text = (CHART / name).read_text()
        assert written(text) == text, f"{name}: run ./scripts/make-chart"


@pytest.mark.parametrize(
    "version, semantic",
    [("0.3.0", "0.3.0"), ("0.3.0.dev0", "0.3.0-dev.0"), ("1.0rc2", "1.0-rc.2"), ("1.0.0rc2.dev3", "1.0.0-rc.2.dev.3")],
)
def test_versions_are_in_order_for_helm(version: str, semantic: str) -> None:
    assert make_chart.semantic(version) == semantic


def test_a_value_without_a_description_is_an_error() -> None:
    assert [*make_chart.described("a:\n  # One\n  # thing\n  b: 1\n# Of\nc:\n  d: 2\n")] == [
        ("a.b", 1, "One thing"),
        ("c", {"d": 2}, "Of"),
    ]
    with pytest.raises(make_chart.NoDescription, match=r"a\.c"):
        [*make_chart.described("a:\n  # One\n  b: 1\n  c: 2\n")]


def test_each_value_is_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def follow(part: dict[str, Any]) -> dict[str, Any]:
        return follow(schema["definitions"][part["$ref"].rpartition("/")[2]]) if "$ref" in part else part

    def compare(at: str, values: Mapping[str, Any], part: dict[str, Any]) -> None:
        assert part["additionalProperties"] is False, at
        assert set(values) == set(part["properties"]) - {"global"}, at
        for name, value in values.items():
            below = follow(part["properties"][name])
            closed = below.get("additionalProperties") is False and name != "resources"
            if isinstance(value, dict) and value and closed:
                compare(f"{at}.{name}", value, below)

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    compare("", values, schema)


# With Helm


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_lint_has_nothing_to_say(helm: Helm, example: Path) -> None:
    assert helm.lint(values_of(example)) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_object_is_valid(helm: Helm, example: Path) -> None:
    objects = named(helm.render(values_of(example)))
    assert [text for found in objects.values() for text in errors_of(found)] == []
    assert "Secret" not in {kind for kind, _ in objects}
    assert {"StatefulSet", "Service", "PodDisruptionBudget"} <= {kind for kind, _ in objects}


def test_the_values_of_the_page_are_taken(helm: Helm) -> None:
    blocks = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
    assert len(blocks) > 1
    for values in blocks:
        assert [text for found in helm.render(values) for text in errors_of(found)] == []
    for said in re.findall(r"--set (\S+)", PAGE):
        named = dict(pair.split("=") for pair in said.split(","))
        assert set(named) <= {path for path, _, _ in make_chart.described((CHART / "values.yaml").read_text())}, said


def test_a_wrong_field_is_found() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"prots": []}}
    assert all("prots" in text for text in errors_of(service))
    assert len(errors_of(service)) == 2
    issuer = {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "a"}, "spec": {"cb": {}}}
    assert errors_of(issuer)


def test_the_objects_are_those_of_kustomize(helm: Helm, tmp_path: Path) -> None:
    """Fields, names and variables; beside the labels that tell releases apart."""
    base = kustomized(("workers", "cert-manager", "service-monitor"), tmp_path)
    (workers,) = [one for one in base if one["kind"] == "Deployment"]
    (nodes,) = [one for one in base if one["kind"] == "StatefulSet"]
    image = container_of(nodes)["image"].rpartition(":")
    chart = helm.render(
        {
            "image": {"repository": image[0], "tag": image[2]},
            "voters": {"storage": {"className": "local-ssd"}},
            "workers": {"default": {"replicas": workers["spec"]["replicas"]}},
            "certificates": {"certManager": True},
            "metrics": {"monitor": "ServiceMonitor"},
        },
        namespace=NAMESPACE,
    )
    expected = {name: plain(one) for name, one in named(base).items() if name[0] != "Namespace"}
    found = {name: plain(one) for name, one in named(chart).items()}
    assert set(found) == set(expected)
    for name, one in expected.items():
        assert found[name] == one, name


def plain(found: Any) -> Any:
    """Returns an object without what only one of the two ways has to say, and variables by their names."""
    if isinstance(found, list):
        return [plain(one) for one in found]
    if isinstance(found, str):
        return found.replace("$(POD_NAMESPACE)", NAMESPACE)
    if not isinstance(found, dict):
        return found
    left = {name: plain(one) for name, one in found.items() if name not in OWN_LABELS}
    for name in ("namespace", "imagePullPolicy"):  # Kustomize says one, and the chart the default of the other
        if left.get(name) in (NAMESPACE, "IfNotPresent"):
            del left[name]
    if left.get("labels", {}).get("app.kubernetes.io/component") == "certificates":
        del left["labels"]
    if left.get("annotations") == {"raftsched/founders": "3"}:
        del left["annotations"]
    if "env" in left:
        left["env"] = {item["name"]: item.get("value", item.get("valueFrom")) for item in left["env"]}
    return left


def test_variables_come_after_those_that_they_name(helm: Helm) -> None:
    for found in helm.render(with_values(workers={"default": {}})):
        if found["kind"] in ("StatefulSet", "Deployment"):
            assert "$(" not in "".join(environment(found, "pod-0").values()), found["kind"]


def test_two_releases_in_a_namespace_have_nothing_in_common(helm: Helm) -> None:
    values = {**values_of(CHART / "ci" / "everything-values.yaml"), "ingress": {}}
    one, two = (named(helm.render(values, name=name)) for name in ("raftsched", "night"))
    assert {name for _, name in two} == {name.replace("raftsched", "night-raftsched", 1) for _, name in one}
    assert not set(one) & set(two)
    of_pods: dict[str, set[int]] = {}
    for objects in (one, two):
        (nodes,) = [found for (kind, _), found in objects.items() if kind == "StatefulSet"]
        labels = nodes["spec"]["template"]["metadata"]["labels"]
        for found in objects.values():
            for selector in selectors(found):
                of_pods.setdefault(json.dumps(selector, sort_keys=True), set()).add(id(objects))
        assert labels["app.kubernetes.io/instance"] in ("raftsched", "night")
    assert all(len(users) == 1 for users in of_pods.values()), "a selector finds the pods of both"


def selectors(found: Any) -> Iterator[Any]:
    """Yields what finds pods of a release: all selectors of its own labels."""
    if isinstance(found, list):
        for one in found:
            yield from selectors(one)
    elif isinstance(found, dict):
        for name, one in found.items():
            labels = one.get("matchLabels", one) if name in ("selector", "podSelector", "labelSelector") and one else {}
            if "app.kubernetes.io/name" in labels:
                yield labels
            yield from selectors(one)


def test_a_selector_never_changes_with_the_version(helm: Helm, tmp_path: Path) -> None:
    """Kubernetes refuses to change these fields of what there is."""
    later = shutil.copytree(CHART, tmp_path / "raftsched")
    text = (later / "Chart.yaml").read_text()
    (later / "Chart.yaml").write_text(re.sub(r"^(appVersion|version): .*", r"\1: 9.9.9", text, flags=re.MULTILINE))
    values = with_values(workers={"default": {}})
    now, then = (named(helm.render(values, chart=chart)) for chart in (CHART, later))
    changed = 0
    for name, found in now.items():
        changed += found != then[name]
        fixed = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
        if name[0] in ("StatefulSet", "Deployment"):
            assert [found["spec"].get(one) for one in fixed] == [then[name]["spec"].get(one) for one in fixed]
    assert changed


def test_pods_beyond_the_founders_join(helm: Helm) -> None:
    (nodes,) = [one for one in helm.render(with_values(voters={"replicas": 5})) if one["kind"] == "StatefulSet"]
    said = environment(nodes, "raftsched-4")
    assert (nodes["spec"]["replicas"], said["RAFTSCHED_PEERS"].count("=")) == (5, 3)
    assert "-lt 3 ]" in container_of(nodes)["args"][0]
    (nodes,) = [
        one for one in helm.render(with_values(voters={"replicas": 5, "founders": 5})) if one["kind"] == "StatefulSet"
    ]
    assert environment(nodes, "raftsched-4")["RAFTSCHED_PEERS"].count("=") == 5
    assert "-lt 5 ]" in container_of(nodes)["args"][0]


def test_a_pod_has_more_time_than_its_grace(helm: Helm) -> None:
    values = with_values(voters={"settings": {"grace": "2m"}}, workers={"a": {"settings": {"grace": "1h"}}})
    times = {
        one["kind"]: pod_of(one)["terminationGracePeriodSeconds"]
        for one in helm.render(values)
        if one["kind"] in ("StatefulSet", "Deployment")
    }
    assert times == {"StatefulSet": 155, "Deployment": 3630}


def test_keda_scales_a_pool_and_helm_does_not(helm: Helm) -> None:
    scaled = {"settings": {"queues": "a.b, c"}, "autoscaling": SCALED}
    objects = named(helm.render(with_values(workers={"x": scaled, "y": {}})))
    assert "replicas" not in objects["Deployment", "raftsched-worker-x"]["spec"], "each upgrade would set it again"
    assert objects["Deployment", "raftsched-worker-y"]["spec"]["replicas"] == 2
    assert [name for kind, name in objects if kind == "ScaledObject"] == ["raftsched-worker-x"]
    spec = objects["ScaledObject", "raftsched-worker-x"]["spec"]
    assert spec["minReplicaCount"] == 0
    asked = set(re.findall(r"\braftsched_\w+", json.dumps(spec["triggers"])))
    assert len(asked) == 2
    assert asked <= set(re.findall(r"\braftsched_\w+", METRICS.read_text()))
    assert r'queue=~"a\\.b|c"' in spec["triggers"][0]["metadata"]["query"]
    assert len(spec["triggers"]) == 2, "the runs of all workers say nothing of one pool"
    alone = named(helm.render(with_values(workers={"x": scaled})))["ScaledObject", "raftsched-worker-x"]
    assert "raftsched_executor_running" in alone["spec"]["triggers"][2]["metadata"]["query"]


def test_strangers_reach_nothing_unless_it_is_said(helm: Helm) -> None:
    policies = [one for one in helm.render(with_values(workers={"default": {}})) if one["kind"] == "NetworkPolicy"]
    assert {one["metadata"]["name"] for one in policies} == {"raftsched", "raftsched-worker"}
    off = helm.render(
        with_values(networkPolicy={"enabled": False}, workers={"default": {}}, metrics={"monitor": "PodMonitor"})
    )
    assert "NetworkPolicy" not in {one["kind"] for one in off}


SCALED = {"enabled": True, "prometheus": "http://prometheus.monitoring:9090"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"image": {"repository": ""}}, "image.repository is missing"),
    ({"image": {"repository": "r", "tag": "latest"}}, "image.tag is latest"),
    ({"image": {"repository": "r", "digest": "abc"}}, "digest"),
    ({"image": {"repository": "r@sha256:1"}}, "repository"),
    ({"voters": {"replicas": 1}}, "voters.replicas is 1 and voters.founders is 3"),
    ({"voters": {"replicas": 2}}, "replicas"),
    ({"voters": {"replicas": "3"}}, "replicas"),
    ({"voters": {"storage": {"emptyDir": {}}}}, "emptyDir"),
    ({"voters": {"storage": {"size": "10"}}}, "size"),
    ({"voters": {"autoscaling": {"enabled": True}}}, "autoscaling"),
    ({"voters": {"settings": {"slotz": 3}}}, "slotz"),
    ({"voters": {"settings": {"id": "x"}}}, "id"),
    ({"voters": {"settings": {"insecure_http": True}}}, "insecure_http"),
    ({"voters": {"settings": {"executors": "exec"}}}, "executors"),
    ({"voters": {"settings": {"grace": "soon"}}}, "grace"),
    ({"voters": {"env": [{"name": "RAFTSCHED_PEERS", "value": "x"}]}}, "RAFTSCHED_PEERS is a setting"),
    ({"voters": {"env": [{"name": "SMTP_PASSWORD", "value": "x"}]}}, "SMTP_PASSWORD looks like a secret"),
    ({"voters": {"podLabels": {"app.kubernetes.io/name": "x"}}}, "app.kubernetes.io/name"),
    ({"workers": {"a": {"token": "rs_x"}}}, "token"),
    ({"workers": {"a": {"env": [{"name": "DB_PASSWD", "value": "x"}]}}}, "workers.a.env: DB_PASSWD"),
    ({"workers": {"A": {}}}, "workers.A: a pool's name"),
    ({"workers": {"a" * 50: {}}}, "54 characters"),
    ({"workers": {"a": {"image": {"tag": "7"}}}}, "workers.a.image has no repository"),
    ({"workers": {"a": {"settings": {"run_as": "default=root"}}}}, "run_as"),
    ({"workers": {"a": {"autoscaling": SCALED}}}, "workers.a.settings.queues is missing"),
    (
        {"workers": {"a": {"settings": {"queues": "q"}, "autoscaling": {"enabled": True}}}},
        "workers.a.autoscaling.prometheus is missing",
    ),
    (
        {"workers": {"a": {"settings": {"queues": "q"}, "autoscaling": {**SCALED, "min": 20}}}},
        "workers.a.autoscaling: min is 20 and max is 10",
    ),
    ({"ingress": {"enabled": True, "host": "jobs.example"}}, "ingress.tlsSecret is missing"),
    ({"ingress": {"enabled": True, "tlsSecret": "x"}}, "ingress.host is missing"),
    ({"networkPolicy": {"workersEgress": [{}]}}, "workersEgress"),
    ({"networkPolicy": {"workersEgress": [{"to": []}]}}, "workersEgress"),
    ({"networkPolicy": {"clients": [{}]}}, "clients"),
    ({"metrics": {"monitor": "podmonitor"}}, "monitor"),
    ({"fullnameOverride": "1st"}, "no name of a service"),
    ({"fullnameOverride": "a.b"}, "no name of a service"),
    ({"fullnameOverride": "a" * 46}, "at most 45"),
    ({"clusterkey": "x"}, "clusterkey"),
]  # fmt: skip


@pytest.mark.parametrize("values, says", REFUSED, ids=lambda item: item if isinstance(item, str) else "")
def test_values_that_would_do_harm_are_refused(helm: Helm, values: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused, match=re.escape(says)):
        helm.render(with_values(**values))


def test_all_that_is_wrong_is_told_at_once(helm: Helm) -> None:
    values = {"voters": {"replicas": 1}, "ingress": {"enabled": True, "host": "jobs.example"}}
    with pytest.raises(Refused) as refused:
        helm.render(values)
    for says in ("image.repository", "voters.replicas", "ingress.tlsSecret"):
        assert f"\n- {says}" in str(refused.value), says


def test_the_longest_names_fit(helm: Helm) -> None:
    for found in helm.render(with_values(workers={"default": {}}), name="a" * 35):
        assert len(found["metadata"]["name"]) <= 52, "Kubernetes and KEDA append to it"


def test_names_of_digits_are_texts(helm: Helm) -> None:
    values = with_values(
        fullnameOverride="jobs",
        voters={"storage": {"className": "1"}, "priorityClassName": "2"},
        workers={"3": {"tokenSecret": "4"}},
        secrets={"key": "5", "tls": "6"},
        metrics={"monitor": "PodMonitor", "tokenSecret": "7", "job": "8", "namespace": "9"},
        ingress={"enabled": True, "host": "10", "tlsSecret": "11", "namespace": "12", "className": "13"},
        certificates={"certManager": True},
        serviceAccount={"create": True, "name": "14"},
    )
    assert [text for found in helm.render(values, name="2026") for text in errors_of(found)] == []


LIVING: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"replicas": 3}, ""),
    ({"replicas": 5}, {"replicas": 3}, "Remove the members first (raftsched cluster members remove raftsched-4)"),
    ({"replicas": 5}, {"replicas": 3, "shrink": True}, ""),
    ({"founders": "3"}, {"replicas": 5, "founders": 5}, "this cluster was formed by 3"),
    ({"founders": "5", "replicas": 3}, {"replicas": 3, "founders": 3}, ""),
    ({}, {"storage": {"size": "20Gi"}}, "the volumes have 10Gi"),
    ({"size": "1Ti"}, {"storage": {"size": "1024Gi"}}, ""),
    ({"class": "fast"}, {"storage": {"className": "slow"}}, 'of the class "fast"'),
    ({"class": "fast"}, {}, ""),
]


@pytest.mark.parametrize("is_there, voters, says", LIVING)
def test_an_upgrade_that_would_lose_the_majority_is_refused(
    helm: Helm, tmp_path: Path, is_there: dict[str, Any], voters: dict[str, Any], says: str
) -> None:
    """With an object in the place of what Helm would find in the cluster."""
    chart = shutil.copytree(CHART, tmp_path / "raftsched")
    claim = {
        "resources": {"requests": {"storage": is_there.get("size", "10Gi")}},
        "storageClassName": is_there.get("class", ""),
    }
    living = {
        "metadata": {"annotations": {"raftsched/founders": is_there.get("founders", "3")}},
        "spec": {
            "replicas": is_there.get("replicas", 3),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }
    (chart / "living.json").write_text(json.dumps(living))
    checks = chart / "templates" / "_checks.tpl"
    text, asked = checks.read_text(), 'lookup "apps/v1" "StatefulSet" .Release.Namespace $name'
    assert asked in text
    checks.write_text(text.replace(asked, '.Files.Get "living.json" | fromJson'))
    if not says:
        helm.render(with_values(voters=voters), chart=chart)
        return
    with pytest.raises(Refused, match=re.escape(says)):
        helm.render(with_values(voters=voters), chart=chart)


def test_the_notes_say_how_it_goes_on(helm: Helm, tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "raftsched")
    notes = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{notes}{{{{ end }}}}')
    (chart / "templates" / "shown.yaml").write_text('notes: {{ include "notes" . | quote }}\n')

    def told(values: dict[str, Any]) -> str:
        (text,) = [one["notes"] for one in helm.render(values, chart=chart) if "notes" in one]
        return str(text)

    text = told(values_of(CHART / "ci" / "five-voters-values.yaml"))
    assert "create secret generic raftsched-worker --from-file=token" in text
    assert "raftsched cluster members add raftsched-3 --wait\n" in text
    assert "--host raftsched-4.raftsched-nodes.raftsched.svc" in text
    assert "WARNING" not in text
    assert "WARNING: voters have a limit of the processor" in told(
        with_values(voters={"resources": {"limits": {"cpu": "1"}}})
    )
    text = told(values_of(CHART / "ci" / "one-voter-values.yaml"))
    assert "WARNING: one voter" in text
    assert "WARNING: there are no network policies" in text
    assert "certs" not in told(values_of(CHART / "ci" / "everything-values.yaml"))
