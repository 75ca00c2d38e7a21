"""Logins of an OpenID Connect issuer on three real nodes: by the command line, on all, until the setting goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from raftsched.system.clock import SystemClock
from tests.e2e.steps import command
from tests.support.issuer import CLIENT, as_setting, issuing_beside, rsa_key
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e

JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "namespace": "web"}


def test_a_login_is_good_on_every_node_until_the_setting_goes(tmp_path: Path) -> None:
    def ask(*words: str) -> Result:
        return command(None, *words, home=tmp_path)  # all but the context lies there

    with LocalCluster(3) as cluster, issuing_beside() as issuer:
        issuer.now = SystemClock().wall_ms() // 1_000
        assert ask("contexts", "set", "here", cluster.servers, "--use").exit_code == 0
        bootstrapped = ask("tokens", "bootstrap")
        assert bootstrapped.exit_code == 0, bootstrapped.stderr
        root = {"Authorization": f"Bearer {bootstrapped.stdout.strip()}"}
        node = cluster.nodes[0]
        assert node.request("PUT", "/v1/cluster/oidc", as_setting(issuer), headers=root).status == 200

        issuer.when_asked = lambda: issuer.let_in(sub="u-1", groups=["web"])
        done = ask("login", "--device", "--issuer", issuer.url, "--client-id", CLIENT)
        assert done.exit_code == 0, done.stderr
        assert "editor in web" in done.stdout
        made = ask("jobs", "create", "mine", "--namespace", "web", "--manual", "--shell", "true")
        assert made.exit_code == 0, made.stderr
        assert ask("jobs", "create", "other", "--manual", "--shell", "true").exit_code == 5

        def shown(token: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        good = shown(issuer.token(sub="u-1", groups=["web"]))
        for number, each in enumerate(cluster.nodes):
            assert each.request("POST", "/v1/jobs", {**JOB, "name": f"j{number}"}, headers=good).status == 201
            assert each.request("POST", "/v1/jobs", {**JOB, "namespace": "billing"}, headers=good).status == 403
            assert each.request("GET", "/v1/jobs", headers=shown(issuer.token(aud="x", groups=["ops"]))).status == 401
        issuer.keys = {"rsa-2": rsa_key(2)}
        new = shown(issuer.token(kid="rsa-2", groups=["web"]))
        path = "/v1/jobs?namespace=web"
        for each in cluster.nodes:
            cluster.wait("the new key", lambda each=each: each.request("GET", path, headers=new).status == 200)
            assert each.request("GET", path, headers=good).status == 401, "its key is not shown any more"
        notes = node.request("GET", "/v1/audit?actor=oidc%3Au-1", headers=root).json["items"]
        assert {note["operation"] for note in notes} == {"jobs_create"}

        assert cluster.nodes[2].request("DELETE", "/v1/cluster/oidc", headers=root).status == 204
        for each in cluster.nodes:
            cluster.wait(
                "no login to be good",
                lambda each=each: each.request("GET", path, headers=new).status == 401,
            )
