"""The chain of the audit from outside, refusals, backups that are noted, and bounds that their subject cannot lower."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftsched.cli.auth import audit_chain
from raftsched.cli.auth.audit_chain import Broken, Export, verify_all
from raftsched.client.errors import AuthError, UnavailableError
from tests.integration.api.auth.test_audit import JOB, listed
from tests.support.local_api import Client, run
from tests.support.tokens import As, guarded


class Copy:
    """What a client of the CLI gets, from answers that were read before."""

    def __init__(self, chain: Any, notes: list[Any], refusals: Any) -> None:
        self.chain = chain
        self.notes = notes
        self.refusals = refusals

    def get(self, path: str) -> Any:
        return self.chain if path.endswith("chain") else self.refusals

    def items(self, path: str, query: Mapping[str, Any], most: int | None) -> Iterator[Any]:
        kind = query.get("kind")
        return iter([note for note in self.notes if kind in (None, note["kind"])])


async def copy_of(who: Any) -> Copy:
    notes = await listed(who, "&order=oldest")
    _, chain = await who("GET", "/v1/audit/chain")
    _, refusals = await who("GET", "/v1/audit/refusals")
    return Copy(chain, notes, refusals)


async def some_notes(call: Client) -> dict[str, As]:
    await call("PUT", "/v1/queues/mails", {"max_running": 3})
    people = await guarded(call)
    await people["editor"]("POST", "/v1/jobs", {**JOB, "name": 'ü\n"x'[:1]})
    await people["admin"]("PATCH", "/v1/cluster/settings", {"audit_max": 200_000, "timeout_ceiling": "2h"})
    await people["operator"]("PUT", "/v1/namespaces/n", {"owner": 'a b ü \\ " /'})
    await people["editor"]("POST", "/v1/jobs", {**JOB, "name": "b"})
    await people["editor"]("PUT", "/v1/namespaces/default/jobs/b", {**JOB, "priority": 7})
    await people["editor"]("PUT", "/v1/namespaces/default/secrets/s", {"value": "x"})
    return people


def test_it_is_whole_until_something_is_touched(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await some_notes(call)
        copy = await copy_of(people["operator"])
        found = verify_all(copy, None)  # type: ignore[arg-type]
        assert found["change"]["notes"] == len([note for note in copy.notes if note["kind"] == "change"]) > 5
        for kind in ("work", "job", "secret"):
            assert found[kind]["head"] == copy.chain[kind]["head"] != ""
        changes = [note for note in copy.notes if note["kind"] == "change"]
        for number, note in enumerate(changes):
            for field, value in (("actor", "eve"), ("count", 7), ("change", {"x": 1}), ("remote", "::1")):
                altered = [{**n, field: value} if n is note else n for n in copy.notes]
                with pytest.raises(Broken):
                    verify_all(Copy(copy.chain, altered, None), None)  # type: ignore[arg-type]
            if number:
                with pytest.raises(Broken):
                    verify_all(Copy(copy.chain, [n for n in copy.notes if n is not note], None), None)  # type: ignore[arg-type]
        with pytest.raises(Broken, match="newest note"):
            verify_all(Copy(copy.chain, [n for n in copy.notes if n is not changes[-1]], None), None)  # type: ignore[arg-type]

    run(tmp_path, test)


def test_a_record_that_was_rewritten_does_not_fit_to_its_copy(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await some_notes(call)
        copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
        assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
        lines = file.read_text().splitlines()
        assert [json.loads(line) for line in lines] == copy.notes
        assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
        assert file.read_text().splitlines() == lines, "each note once"
        verify_all(copy, file)  # type: ignore[arg-type]
        # half a line, as a writer that was killed leaves it
        file.write_bytes(file.read_bytes() + b'{"kind": "cha')
        await people["operator"]("POST", "/v1/cluster/pause")
        more = await copy_of(people["operator"])
        assert Export(more, file, None).run(None) == 0  # type: ignore[arg-type]
        assert len(file.read_text().splitlines()) == len(lines) + 1
        verify_all(more, file)  # type: ignore[arg-type]
        with pytest.raises(Broken, match="rewritten"):
            verify_all(copy, file)  # type: ignore[arg-type]
        file.write_text(file.read_text().replace('"actor":"admin"', '"actor":"eve"', 1))
        with pytest.raises(Broken, match="line"):
            verify_all(more, file)  # type: ignore[arg-type]

    run(tmp_path, test)


def test_an_export_outlives_nodes_that_are_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[str] = []

    class Away(Copy):
        def items(self, path: str, query: Mapping[str, Any], most: int | None) -> Iterator[Any]:
            if not answers:
                raise AuthError("unauthorized", "this token was revoked", status=401)
            if answers.pop(0) == "no":
                raise UnavailableError("unreachable", "no node answers")
            return super().items(path, query, most)

    async def test(call: Client) -> None:
        people = await some_notes(call)
        copy = await copy_of(people["operator"])
        answers.append("no")
        with pytest.raises(UnavailableError):
            Export(Away(copy.chain, copy.notes, copy.refusals), tmp_path / "once", None).run(None)  # type: ignore[arg-type]
        answers.extend(["no", "no", "yes"])
        monkeypatch.setattr(audit_chain, "time", SimpleNamespace(sleep=lambda seconds: None))
        file = tmp_path / "audit.jsonl"
        with pytest.raises(AuthError):  # what is refused ends it
            Export(Away(copy.chain, copy.notes, copy.refusals), file, None).run(1.0)  # type: ignore[arg-type]
        assert len(file.read_text().splitlines()) == len(copy.notes)
        assert capsys.readouterr().err.count("no node answers") == 1

    run(tmp_path, test)


def test_a_copy_without_its_hashes_is_no_copy(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await some_notes(call)
        copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
        changes = [note for note in copy.notes if note["kind"] == "change"]

        def verify(notes: list[Any], of: Copy = copy) -> None:
            file.write_text("".join(json.dumps(note) + "\n" for note in notes))
            verify_all(of, file)  # type: ignore[arg-type]

        verify(changes)
        verify(changes[2:])
        eve = {"actor": "eve", "hash": None}
        with pytest.raises(Broken, match="line"):
            verify([{**note, **eve} for note in changes[:-1]] + changes[-1:])
        with pytest.raises(Broken, match="no note of kind change"):
            verify([{**note, **eve} for note in changes])
        with pytest.raises(Broken, match="another one in the cluster"):
            verify([{**changes[0], "actor": "eve"}, *changes[1:]])
        # nor is a cluster whose notes have none, in front of one that fits to the copy
        base = {**copy.chain, "change": {**copy.chain["change"], "base": changes[-2]["hash"]}}
        forged = Copy(base, [{**note, **eve} for note in changes[:-1]] + changes[-1:], None)
        with pytest.raises(Broken, match="does not fit"):
            verify(changes, forged)

    run(tmp_path, test)


def test_who_is_in_it_cannot_shorten_it(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        call.context.security.local_digest = sha256(b"rl_x").digest()
        people = await guarded(call)
        admin = people["admin"]
        for less in ({"audit_max": 1_000}, {"audit_keep": "1d"}, {"audit_max": 1_000, "audit_keep": None}):
            status, told = await admin("PATCH", "/v1/cluster/settings", less)
            assert (status, told["code"]) == (403, "forbidden")
            assert "local.token" in told["detail"]
        assert (await admin("PATCH", "/v1/cluster/settings", {"audit_max": 0}))[0] == 422
        assert (await admin("PATCH", "/v1/cluster/settings", {"audit_max": 300_000}))[0] == 200
        assert (await As(call, "rl_x")("PATCH", "/v1/cluster/settings", {"audit_max": 1_000}))[0] == 200
        newest = (await listed(people["operator"], "&kind=change"))[0]
        assert newest["change"] == {"audit_max": {"from": 300_000, "to": 1_000}}
        assert newest["actor"] == "local at n1"

    run(tmp_path, test)


def test_refusals_are_kept_apart(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await guarded(call)
        for ordinary in ({}, {"X-Ordinary": "1"}):
            assert (await people["viewer"]("POST", "/v1/jobs", JOB, ordinary))[0] == 403
            assert (await As(call, "rs_wrong")("POST", "/v1/jobs", JOB, ordinary))[0] == 401
        assert (await people["viewer"]("PUT", "/v1/queues/q", {"max_running": 1}))[0] == 403
        assert (await people["viewer"]("GET", "/v1/audit/refusals"))[0] == 403
        status, found = await people["operator"]("GET", "/v1/audit/refusals")
        assert status == 200
        seen = {(one["status"], one["actor"], one["resource"]): one["count"] for one in found["items"]}
        assert seen == {
            (403, "viewer", "/v1/jobs"): 2,
            (401, None, "/v1/jobs"): 2,
            (403, "viewer", "/v1/queues/q"): 1,
            (403, "viewer", "/v1/audit/refusals"): 1,
        }
        assert (await listed(people["operator"]))[0]["operation"] == "tokens_put_access"

    run(tmp_path, test)


def test_a_backup_is_noted(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await guarded(call)
        await people["admin"]("GET", "/v1/cluster/snapshot")
        newest = (await listed(people["operator"], "&kind=change"))[0]
        assert (newest["operation"], newest["actor"]) == ("snapshot_get", "admin")

    run(tmp_path, test)


def test_parts_of_the_log_are_for_admins_and_noted_among_work(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await guarded(call)
        assert (await people["operator"]("GET", "/v1/cluster/log"))[0] == 403
        before = await listed(people["operator"], "&kind=change")
        assert (await people["admin"]("GET", "/v1/cluster/log"))[0] == 200
        newest = (await listed(people["operator"], "&kind=work"))[0]
        assert (newest["operation"], newest["actor"]) == ("log_segments_get", "admin")
        assert await listed(people["operator"], "&kind=change") == before, "it pushes out nothing that is rarer"

    run(tmp_path, test)
