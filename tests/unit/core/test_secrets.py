"""Secrets: put, deleted while nobody refers to them; references are found, and lead somewhere."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.bounds import SECRET_VALUE_MAX
from raftsched.core import commands as c
from raftsched.core.limits import USERS_MAX
from raftsched.core.rules.references import REFERENCES_MAX, find_secret, references
from raftsched.core.rules.selection import secret_tag, split_tags
from raftsched.core.subjects.namespace import DeleteNamespace, PutNamespace
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.subjects.secret import DeleteSecret, PutSecret, Secret
from raftsched.core.tables import Table
from tests.support.memory_view import World, policy


def secret(world: World, name: str = "pw", namespace: str = "d") -> Secret | None:
    return find_secret(world.view, namespace, name)


def body(*names: str) -> bytes:
    return msgspec.json.encode({"handler": {"env": {f"E{i}": {"$secret": n} for i, n in enumerate(names)}}})


def create(name: str, *names: str, namespace: str = "d") -> c.CreateJob:
    return c.CreateJob(namespace, name, policy(), body(*names))


def put(name: str = "pw", value: bytes = b"v", namespace: str = "d", **fields: object) -> PutSecret:
    return PutSecret(namespace, name, value, **fields)  # type: ignore[arg-type]


class TestPut:
    def test_the_same_again_is_no_change(self) -> None:
        world = World()
        assert world.ok(put()).created
        first = secret(world)
        assert first is not None
        assert (first.value, first.shared) == (b"v", False)
        assert not world.ok(put()).created
        assert secret(world) == first
        world.ok(put(value=b"w"))
        second = secret(world)
        assert second is not None
        assert second.revision > first.revision

    def test_of_sealed_values_the_digest_counts(self) -> None:
        world = World()
        world.ok(put(value=b"1", nonce=b"a", digest=b"same"))
        first = secret(world)
        world.ok(put(value=b"2", nonce=b"b", digest=b"same"))
        assert secret(world) == first
        world.ok(put(value=b"3", nonce=b"c", digest=b"other"))
        assert secret(world) != first
        world.ok(put(value=b"3"))  # the same bytes as they are, and not sealed
        found = secret(world)
        assert found is not None
        assert found.nonce == b""

    def test_sharing_stays_unless_it_is_said(self) -> None:
        world = World()
        world.ok(put(shared=True))
        world.ok(put(value=b"w"))
        found = secret(world)
        assert found is not None
        assert found.shared
        world.ok(put(value=b"w", shared=False))
        assert secret(world) != found

    def test_conditions(self) -> None:
        world = World()
        assert world.refused(put(if_revision=1)) == "stale-revision"
        world.ok(put(if_none=True))
        found = secret(world)
        assert found is not None
        assert world.refused(put(if_none=True)) == "exists"
        assert world.refused(put(if_revision=found.revision + 1)) == "stale-revision"
        assert world.refused(DeleteSecret("d", "pw", found.revision + 1)) == "stale-revision"
        world.ok(DeleteSecret("d", "pw", found.revision))
        assert world.refused(DeleteSecret("d", "pw")) == "not-found"

    @pytest.mark.parametrize(
        ("namespace", "name"), [("", "pw"), ("x" * 65, "pw"), ("d", ""), ("d", "a/b"), ("d", "x" * 129), ("d", "a\0b")]
    )
    def test_names_that_are_no_keys(self, namespace: str, name: str) -> None:
        world = World()
        assert world.refused(put(name, namespace=namespace)) == "invalid-parameter"
        assert world.refused(DeleteSecret(namespace, name)) == "not-found"

    def test_bounds(self) -> None:
        world = World()
        assert world.refused(put(value=b"x" * (SECRET_VALUE_MAX + 1))) == "invalid-parameter"
        assert world.refused(put(nonce=b"x" * 100)) == "invalid-parameter"
        world.settings(secrets_max=1)
        world.ok(put())
        assert world.refused(put("other")) == "not-possible"
        world.settings(namespaces_strict=1, secrets_max=5)
        assert world.refused(put("other")) == "invalid-job"
        world.ok(put(value=b"w"))

    def test_no_value_is_told_by_its_name(self) -> None:
        assert "hunter2" not in repr(put(value=b"hunter2"))
        world = World()
        world.ok(put(value=b"hunter2"))
        assert "hunter2" not in repr(secret(world))


class TestReferences:
    def test_where_they_are_found(self) -> None:
        one = {"$secret": "pw"}
        job = {
            "handler": {
                "env": {"A": one, "B": "plain"},
                "http": {"url": "http://h/", "headers": {"X/Y": {"$secret": "o/tok"}}, "body": one},
            },
            "params": {"a": [1, {"b": one}], "c": {"$secret": 7}},
            "labels": {"$secret": "no"},
        }
        found = {(r.text, r.pointer) for r in references("d", msgspec.json.encode(job))}
        assert found == {
            ("d/pw", "/handler/env/A"),
            ("o/tok", "/handler/http/headers/X~1Y"),
            ("d/pw", "/handler/http/body"),
            ("d/pw", "/params/a/1/b"),
        }

    @pytest.mark.parametrize("raw", [b"", b"{}", b'"$secret"', b'["$secret"]', b'{"handler":"$secret"', b"\xff"])
    def test_of_what_is_no_job_there_are_none(self, raw: bytes) -> None:
        assert references("d", raw) == []

    def test_a_job_whose_secret_is_not_there_is_refused(self) -> None:
        world = World()
        answer = world.do(create("a", "pw"))
        assert isinstance(answer, c.Rejected)
        assert (answer.code, answer.pointer) == ("invalid-job", "/handler/env/E0")
        world.ok(put())
        job = world.ok(create("a", "pw")).job
        assert job is not None
        edit = c.EditJob(job.id, policy(), body("pw", "other"), None, "a")
        assert world.refused(edit) == "invalid-job"
        world.ok(put("other"))
        world.ok(edit)

    def test_that_of_another_namespace_has_to_be_shared(self) -> None:
        world = World()
        world.ok(put(namespace="o"))
        assert world.refused(create("a", "o/pw")) == "invalid-job"
        world.ok(put(namespace="o", shared=True))
        world.ok(create("a", "o/pw"))
        assert world.refused(create("b", "pw")) == "invalid-job"  # in one's own there is none

    def test_there_are_not_too_many(self) -> None:
        world = World()
        world.ok(put())
        assert world.refused(create("a", *["pw"] * (REFERENCES_MAX + 1))) == "invalid-job"
        world.ok(create("a", *["pw"] * REFERENCES_MAX))


class TestDelete:
    def test_not_while_jobs_refer_to_it(self) -> None:
        world = World()
        world.ok(put(shared=True))
        job = world.ok(create("a", "pw")).job
        assert job is not None
        assert secret_tag("d", "pw") in split_tags(job.tags)
        world.ok(create("b", "d/pw", namespace="o"))
        answer = world.do(DeleteSecret("d", "pw"))
        assert isinstance(answer, c.Rejected)
        assert answer.code == "in-use"
        assert answer.jobs == (("d", "a"), ("o", "b"))
        assert "o/b" not in answer.detail, "the answer says them to who may see them"
        world.ok(c.DeleteJob(job.id))
        world.ok(c.CreateJob("o", "b", policy(), b"{}", replace=True))
        world.ok(DeleteSecret("d", "pw"))
        assert world.count(Table.SECRETS) == 0

    def test_of_many_some_are_told(self) -> None:
        world = World()
        world.ok(put())
        for i in range(USERS_MAX + 5):
            world.ok(create(f"j{i}", "pw"))
        answer = world.do(DeleteSecret("d", "pw"))
        assert isinstance(answer, c.Rejected)
        assert len(answer.jobs) == USERS_MAX + 1

    def test_none_in_the_clusters_own_namespace(self) -> None:
        world = World()
        assert world.refused(put(namespace=SYSTEM_NAMESPACE)) == "invalid-parameter"
        assert world.count(Table.SECRETS) == 0

    def test_unless_it_is_forced(self) -> None:
        world = World()
        world.ok(put())
        world.ok(create("a", "pw"))
        world.ok(DeleteSecret("d", "pw", force=True))
        assert secret(world) is None
        assert world.refused(c.CreateJob("d", "a", policy(priority=7), body("pw"), replace=True)) == "invalid-job"

    def test_a_namespace_with_secrets_stays(self) -> None:
        world = World()
        world.ok(PutNamespace("d", b"{}"))
        world.ok(put())
        assert world.refused(DeleteNamespace("d")) == "in-use"
        world.ok(DeleteSecret("d", "pw"))
        world.ok(DeleteNamespace("d"))
