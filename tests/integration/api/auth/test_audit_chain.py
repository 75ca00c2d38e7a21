"""The chain of the audit from outside, refusals, backups that are noted, and bounds that their subject cannot lower."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftsched.api.http.durations import format_time
from raftsched.cli.auth import audit_chain, audit_export
from raftsched.cli.auth.audit_chain import FIELDS, Broken, hash_of, own_hash, verify_all
from raftsched.cli.auth.audit_export import Export
from raftsched.client.errors import AuthError, UnavailableError
from raftsched.core.subjects.access import RINGS
from raftsched.surface.audit import RecordOut, RefusedOut
from tests.integration.api.auth.test_audit import JOB, listed
from tests.support.local_api import Client, run
from tests.support.tokens import As, guarded


class Copy:
    """What a client of the CLI gets, from answers that were read before."""

    def __init__(self, chain: Any, notes: list[Any], refusals: Any, members: tuple[str, ...] = ("n1",)) -> None:
        self.chain = chain
        self.notes = notes
        self.refusals = refusals
        self.members = members

    def get(self, path: str) -> Any:
        if path.endswith("members"):
            return {"items": [{"id": node} for node in self.members]}
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


async def test_it_is_whole_until_something_is_touched(call: Client) -> None:
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


async def test_a_record_that_was_rewritten_does_not_fit_to_its_copy(call: Client, tmp_path: Path) -> None:
    people = await some_notes(call)
    copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
    assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
    lines = file.read_text().splitlines()
    assert [json.loads(line) for line in lines[:-1]] == copy.notes
    assert json.loads(lines[-1])["kind"] == "export"
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


async def test_an_export_outlives_nodes_that_are_away(
    call: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[str] = []

    class Away(Copy):
        def items(self, path: str, query: Mapping[str, Any], most: int | None) -> Iterator[Any]:
            if not answers:
                raise AuthError("unauthorized", "this token was revoked", status=401)
            if answers.pop(0) == "no":
                raise UnavailableError("unreachable", "no node answers")
            return super().items(path, query, most)

    people = await some_notes(call)
    copy = await copy_of(people["operator"])
    answers.append("no")
    with pytest.raises(UnavailableError):
        Export(Away(copy.chain, copy.notes, copy.refusals), tmp_path / "once", None).run(None)  # type: ignore[arg-type]
    answers.extend(["no", "no", "yes"])
    monkeypatch.setattr(audit_export, "time", SimpleNamespace(sleep=lambda seconds: None))
    file = tmp_path / "audit.jsonl"
    with pytest.raises(AuthError):  # what is refused ends it
        Export(Away(copy.chain, copy.notes, copy.refusals), file, None).run(1.0)  # type: ignore[arg-type]
    assert len(file.read_text().splitlines()) == len(copy.notes) + 1
    assert capsys.readouterr().err.count("no node answers") == 1


async def test_a_copy_without_its_hashes_is_no_copy(call: Client, tmp_path: Path) -> None:
    people = await some_notes(call)
    copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
    assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
    (closed,) = [line for line in lines_of(file) if line["kind"] == "export"]
    others = [note for note in copy.notes if note["kind"] != "change"]
    changes = [note for note in copy.notes if note["kind"] == "change"]

    def verify(notes: list[Any], of: Copy = copy) -> None:
        write(file, [*notes, *others, closed])
        verify_all(of, file)  # type: ignore[arg-type]

    verify(changes)
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


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def write(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


Lines = list[dict[str, Any]]


def middle(lines: Lines, kind: str = "change") -> int:
    places = [place for place, line in enumerate(lines) if line["kind"] == kind]
    return places[len(places) // 2]


def changed(lines: Lines, of: str = "change", /, **fields: Any) -> Lines:
    at = middle(lines, of)
    return [{**line, **fields} if place == at else line for place, line in enumerate(lines)]


def without(*kinds: str) -> Callable[[Lines], Lines]:
    return lambda lines: [line for line in lines if line["kind"] not in kinds]


OWN = ("refused", "export")

# What is done to a copy, and what is said about it
MANIPULATIONS: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "actor changed": (lambda a: changed(a, actor="mallory"), "does not fit"),
    "address changed": (lambda a: changed(a, remote="1.2.3.4"), "does not fit"),
    "hash changed": (lambda a: changed(a, hash="00" * 32), "does not fit"),
    "hash taken out": (lambda a: changed(a, hash=None), "does not fit"),
    "hash that is none": (lambda a: changed(a, hash="x"), 'field "hash" that no export writes'),
    "field added": (lambda a: changed(a, extra="x"), 'unknown field "extra"'),
    "field left out": (lambda a: [{k: v for k, v in one.items() if k != "job"} for one in a], 'lacks the field "job"'),
    "kind changed": (lambda a: changed(a, kind="note"), 'kind "note"'),
    "note taken out": (lambda a: [one for at, one in enumerate(a) if at != middle(a)], "does not fit"),
    "note doubled": (lambda a: [*a[: middle(a)], a[middle(a)], *a[middle(a) :]], "does not fit"),
    "notes swapped": (lambda a: sorted(a, key=lambda one: -one.get("index", -1000)), "does not fit"),
    "head cut": (lambda a: a[len(a) // 3 :], "head was cut"),
    "tail of notes cut": (lambda a: [*a[:4], *(one for one in a if one["kind"] in OWN)], "tail was cut"),
    "tail cut": (lambda a: a[: len(a) // 2], "tail was cut|has no note of kind"),
    "emptied": (lambda a: [], "is empty"),
    "changes taken out": (without("change"), "has no note of kind change"),
    "jobs taken out": (without("job"), "has no note of kind job"),
    "secrets taken out": (without("secret"), "has no note of kind secret"),
    "all notes taken out": (without("change", "job", "secret", "work"), "has no note of kind"),
    "refusals taken out": (without("refused"), "a refusal was changed, or one is missing"),
    "a refusal taken out": (lambda a: [one for at, one in enumerate(a) if at != middle(a, "refused")], "is missing"),
    "a refusal changed": (lambda a: changed(a, "refused", actor="x", remote="9.9.9.9"), "a refusal was changed"),
    "a refusal without hash": (lambda a: changed(a, "refused", hash=None), 'field "hash" that no export writes'),
    "refusals taken out with their end": (without(*OWN), "line of kind export"),
    "forged line at the end": (lambda a: [*a, {**a[middle(a)], "index": 10**6, "actor": "mallory"}], "does not fit"),
}


@pytest.mark.parametrize("what", MANIPULATIONS)
def test_each_manipulation_of_a_copy_is_refused(tmp_path: Path, what: str) -> None:
    change, said = MANIPULATIONS[what]

    def manipulate(file: Path) -> None:
        write(file, change(lines_of(file)))

    refused_copy(tmp_path, manipulate, said)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("field", ["actor", "hash"])
def test_a_field_that_is_there_twice_is_refused(tmp_path: Path, first: bool, field: str) -> None:
    """Readers of JSON take the first of the two, or the last."""

    def manipulate(file: Path) -> None:
        lines = file.read_text().splitlines()
        twice = f'"{field}":"mallory"'
        line = lines[2]
        lines[2] = f"{{{twice},{line[1:]}" if first else f"{line[:-1]},{twice}}}"
        file.write_text("".join(f"{one}\n" for one in lines))

    refused_copy(tmp_path, manipulate, f'line 3 has "{field}" twice')


@pytest.mark.parametrize("half", [b"[]", b"7", b'{"kind": "cha', b"\xff", b"[" * 100_000, b'{"kind":["work"]}'])
def test_a_line_that_is_broken_is_refused(tmp_path: Path, half: bytes) -> None:
    def manipulate(file: Path) -> None:
        lines = file.read_bytes().splitlines()
        file.write_bytes(b"\n".join([*lines[:2], half, *lines[2:]]) + b"\n")

    refused_copy(tmp_path, manipulate, "line 3")


def refused_copy(tmp_path: Path, manipulate: Callable[[Path], None], said: str) -> None:
    async def test(call: Client) -> None:
        people = await some_notes(call)
        for path in ("/v1/tokens", "/v1/audit", "/v1/cluster/settings:x"):
            await people["viewer"]("GET", path)
        await As(call, "rs_wrong")("GET", "/v1/jobs")
        copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
        assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
        found = verify_all(copy, file)  # type: ignore[arg-type]
        assert found["refused"]["copy"]["notes"] >= 3
        manipulate(file)
        with pytest.raises(Broken, match=said):
            verify_all(copy, file)  # type: ignore[arg-type]

    run(tmp_path, test)


async def test_it_says_what_the_copy_has(call: Client, tmp_path: Path) -> None:
    people = await some_notes(call)
    copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
    assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
    changes = [note for note in copy.notes if note["kind"] == "change"]
    span = {"notes": len(changes), "first": changes[0]["at"], "last": changes[-1]["at"], "unproved": 0}
    assert verify_all(copy, file)["change"]["copy"] == {**span, "newer": 0}  # type: ignore[arg-type]
    call.cluster.clock.forward(60_000)
    before = format_time(call.context.now_ms())
    await people["operator"]("POST", "/v1/cluster/pause")
    await people["operator"]("POST", "/v1/cluster/resume")
    more = await copy_of(people["operator"])
    with pytest.raises(Broken, match=r"the cluster has 2 .* after that: its tail was cut"):
        verify_all(more, file)  # type: ignore[arg-type]
    found = verify_all(more, file, until=datetime.fromisoformat(before))  # type: ignore[arg-type]
    assert found["change"]["copy"] == {**span, "newer": 2}
    assert Export(more, file, None).run(None) == 0  # type: ignore[arg-type]
    late = [line for line in lines_of(file) if line.get("at", before) >= before]
    write(file, late)
    with pytest.raises(Broken, match=r"has no note of kind|its head was cut|is missing before it"):
        verify_all(more, file)  # type: ignore[arg-type]
    found_late = verify_all(more, file, since=datetime.fromisoformat(before))  # type: ignore[arg-type]
    assert (found_late["change"]["copy"]["notes"], found_late["job"]["copy"]["notes"]) == (2, 0)
    assert found["refused"] == {
        "copy": {"notes": 0, "first": None, "last": None}, "node": "n1", "held_against": "n1",
    }  # fmt: skip


async def test_a_copy_that_is_followed_may_come_a_moment_later(
    call: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = await some_notes(call)
    copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
    assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
    await people["operator"]("POST", "/v1/cluster/pause")
    more = await copy_of(people["operator"])

    def sleep(seconds: float) -> None:
        assert Export(more, file, None).run(None) == 0  # type: ignore[arg-type]

    monkeypatch.setattr(audit_chain, "time", SimpleNamespace(sleep=sleep))
    assert verify_all(more, file, wait_s=1)["change"]["copy"]["newer"] == 0  # type: ignore[arg-type]


async def test_refusals_that_the_node_remembers_are_in_its_copy(call: Client, tmp_path: Path) -> None:
    people = await some_notes(call)
    copy, file = await copy_of(people["operator"]), tmp_path / "copy.jsonl"
    assert Export(copy, file, None).run(None) == 0  # type: ignore[arg-type]
    for _ in range(2):  # of the minute that goes on none has to be in it yet
        await people["viewer"]("GET", "/v1/tokens")
        verify_all(copy, file)  # type: ignore[arg-type]
        call.cluster.clock.forward(60_000)
        copy = await copy_of(people["operator"])
    with pytest.raises(Broken, match="n1 refused what the copy does not have, 1 "):
        verify_all(copy, file)  # type: ignore[arg-type]
    elsewhere = Copy(copy.chain, copy.notes, {**copy.refusals, "node": "n2"}, members=("n1", "n2"))
    assert verify_all(elsewhere, file)["refused"]["held_against"] is None  # type: ignore[arg-type]


def test_the_fields_of_a_copy_are_those_of_the_api() -> None:
    notes, refusals = (set(kind.__struct_encode_fields__) for kind in (RecordOut, RefusedOut))
    assert FIELDS["refused"] == refusals | {"kind", "node", "hash"}
    assert {kind: fields for kind, fields in FIELDS.items() if kind not in ("refused", "export")} == dict.fromkeys(
        RINGS, notes
    )


async def test_who_is_in_it_cannot_shorten_it(call: Client) -> None:
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


async def test_refusals_are_kept_apart(call: Client) -> None:
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


async def test_a_backup_is_noted(call: Client) -> None:
    people = await guarded(call)
    await people["admin"]("GET", "/v1/cluster/snapshot")
    newest = (await listed(people["operator"], "&kind=change"))[0]
    assert (newest["operation"], newest["actor"]) == ("snapshot_get", "admin")


async def test_parts_of_the_log_are_for_admins_and_noted_among_work(call: Client) -> None:
    people = await guarded(call)
    assert (await people["operator"]("GET", "/v1/cluster/log"))[0] == 403
    before = await listed(people["operator"], "&kind=change")
    assert (await people["admin"]("GET", "/v1/cluster/log"))[0] == 200
    newest = (await listed(people["operator"], "&kind=work"))[0]
    assert (newest["operation"], newest["actor"]) == ("log_segments_get", "admin")
    assert await listed(people["operator"], "&kind=change") == before, "it pushes out nothing that is rarer"


# Below the cluster is made up: notes of an entry each, and what one node refused


def chained(kind: str, count: int, *, bare: int = 0) -> list[dict[str, Any]]:
    """Returns notes of one kind. `bare`: so many in front of them have no hash."""
    notes: list[dict[str, Any]] = []
    before = ""
    for number in range(bare + count):
        note = dict.fromkeys(FIELDS[kind]) | {
            "index": number + 4, "at": f"2030-01-01T00:00:{number:02d}.000Z", "kind": kind, "actor": "root",
            "operation": "tokens_create", "count": 1, "position": 0,
        }  # fmt: skip
        if number >= bare:
            note["hash"] = before = hash_of(before, note)
        notes.append(note)
    return notes


def refusal(minute: int, count: int, **fields: Any) -> dict[str, Any]:
    said = {
        "first_at": f"2030-01-01T00:{minute:02d}:00.000Z", "last_at": f"2030-01-01T00:{minute:02d}:{count:02d}.000Z",
        "status": 401, "method": "GET", "resource": "/v1/jobs", "actor": None, "remote": "6.6.6.6", "count": count,
    }  # fmt: skip
    return {**said, **fields}


def closed(*refused: dict[str, Any], node: str = "n1") -> Lines:
    """Returns the lines of refusals that a copy has, with hashes that fit, as who writes the file could make them."""
    lines = [{"kind": "refused", "node": node, **one} for one in refused]
    before = ""
    for line in (*lines, end := {"kind": "export", "node": node, "refused": len(lines)}):
        line["hash"] = before = own_hash(before, line)
    return [*lines, end]


def cluster_of(notes: list[dict[str, Any]], *refused: dict[str, Any], **given: Any) -> Copy:
    chain = {}
    for kind in RINGS:
        hashes = [note["hash"] for note in notes if note["kind"] == kind]
        chain[kind] = {"head": (hashes or [""])[-1] or "", "base": "", "count": len(hashes)}
    return Copy(chain, notes, {"node": "n1", "items": list(reversed(refused))}, **given)


def verified(cluster: Copy, file: Path, lines: Lines, **given: Any) -> dict[str, Any]:
    write(file, lines)
    return verify_all(cluster, file, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", RINGS)
def test_notes_without_a_hash_are_not_put_in_front_of_a_chain(tmp_path: Path, kind: str) -> None:
    notes = chained(kind, 3)
    forged = {**notes[0], "index": 1, "actor": "eve", "hash": None}
    said = "does not fit" if kind in ("job", "secret") else "^2 notes of kind .* without a hash: not proved"
    with pytest.raises(Broken, match=said):
        verified(cluster_of(notes), tmp_path / "copy", [forged, forged, *notes, *closed()])


def test_notes_without_a_hash_are_those_of_the_cluster(tmp_path: Path) -> None:
    file, notes = tmp_path / "copy", chained("change", 3, bare=3)
    cluster, since = cluster_of(notes), datetime.fromisoformat(notes[1]["at"])
    assert verified(cluster, file, [*notes, *closed()])["change"]["copy"]["unproved"] == 0
    with pytest.raises(Broken, match="another one in the cluster"):
        verified(cluster, file, [notes[0], {**notes[1], "actor": "eve"}, *notes[2:], *closed()])
    with pytest.raises(Broken, match="its head was cut"):
        verified(cluster, file, [*notes[1:], *closed()])
    assert verified(cluster, file, [*notes[1:], *closed()], since=since)["change"]["copy"]["notes"] == 5
    later = cluster_of(notes[2:])  # the oldest two are not kept any more
    with pytest.raises(Broken, match=r"^2 notes of kind change without a hash: not proved"):
        verified(later, file, [*notes, *closed()])
    assert verified(later, file, [*notes, *closed()], since=since)["change"]["copy"]["unproved"] == 2


def test_what_comes_while_the_cluster_is_read_is_no_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, notes = tmp_path / "copy", chained("work", 9)
    made = 3

    class Live(Copy):
        """Notes are made and exported while it is read."""

        def items(self, path: str, query: Mapping[str, Any], most: int | None) -> Iterator[Any]:
            nonlocal made
            found = list(super().items(path, query, most))
            if query["kind"] == "work" and made < len(notes):
                made += 1
                self.notes, self.chain = notes[:made], cluster_of(notes[:made]).chain
                write(file, [*self.notes, *closed()])
            return iter(found)

    def sleep(seconds: float) -> None:
        write(file, [*notes[:made], *closed()])

    monkeypatch.setattr(audit_chain, "time", SimpleNamespace(sleep=sleep))
    for behind in (0, 1):
        made = 3
        start = cluster_of(notes[:made])
        live = Live(start.chain, start.notes, start.refusals)
        assert verified(live, file, [*notes[: made - behind], *closed()], wait_s=1)["work"]["copy"]["notes"] >= 3
    forged = {**notes[3], "actor": "eve"}
    forged["hash"] = hash_of(notes[2]["hash"], forged)
    with pytest.raises(Broken, match="rewritten"):
        verified(cluster_of(notes[:3]), file, [*notes[:3], forged, *closed()], wait_s=1)


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, notes = tmp_path / "copy", chained("work", 3)

    def sleep(seconds: float) -> None:
        write(file, [*notes, *closed()])

    write(file, [*notes, *closed()])
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(Broken, match="line 4 is no line of an export"):
        verify_all(cluster_of(notes), file)  # type: ignore[arg-type]
    monkeypatch.setattr(audit_chain, "time", SimpleNamespace(sleep=sleep))
    assert verify_all(cluster_of(notes), file, wait_s=1)["work"]["copy"]["notes"] == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [("hash", [1]), ("hash", {"a": 1}), ("hash", "AB" * 32), ("hash", "ab" * 31), ("at", 5), ("at", "2030-01-01"),
     ("count", True), ("count", "1"), ("index", 1.5), ("position", None),
     ("actor", [])],
)  # fmt: skip
def test_values_that_no_export_writes_are_refused_by_their_line(tmp_path: Path, field: str, value: Any) -> None:
    notes = chained("change", 3)
    with pytest.raises(Broken, match=f'line 1 has a value in the field "{field}"|line 1 is no line of an export'):
        verified(cluster_of(notes), tmp_path / "copy", [{**notes[0], field: value}, *notes[1:], *closed()])


@pytest.mark.parametrize(
    ("field", "value"), [("first_at", 5), ("last_at", None), ("count", True), ("status", "401"), ("node", ["n1"])]
)
def test_values_of_refusals_are_checked_too(tmp_path: Path, field: str, value: Any) -> None:
    lines = closed(refusal(0, 5), {**refusal(1, 5), field: value})
    with pytest.raises(Broken, match=f'line 2 has a value in the field "{field}"'):
        verified(cluster_of([]), tmp_path / "copy", lines)


def test_refusals_are_not_hidden_behind_another_node(tmp_path: Path) -> None:
    file, refused = tmp_path / "copy", [refusal(0, 5), refusal(9, 5)]
    cluster = cluster_of([], *refused, members=("n1", "n2"))
    assert verified(cluster, file, closed(*refused))["refused"]["held_against"] == "n1"
    with pytest.raises(Broken, match=r"of n9, which is no member; members are n1, n2\. .* --to"):
        verified(cluster, file, closed(node="n9"))
    removed = datetime.fromisoformat("2031-01-01T00:00:00Z")
    assert verified(cluster, file, closed(node="n9"), until=removed)["refused"]["held_against"] is None
    assert verified(cluster, file, closed(node="n2"))["refused"]["held_against"] is None


def test_refusals_say_what_the_node_remembers(tmp_path: Path) -> None:
    file, refused = tmp_path / "copy", [refusal(0, 5), refusal(1, 5), refusal(9, 5)]
    cluster = cluster_of([], *refused)
    with pytest.raises(Broken, match="what the copy does not have"):
        verified(cluster, file, closed({**refused[0], "method": "HEAD"}, *refused[1:]))
    for less in ({"count": 4}, {"last_at": refused[0]["first_at"]}):
        with pytest.raises(Broken, match="more often than the copy says, 1 "):
            verified(cluster, file, closed({**refused[0], **less}, *refused[1:]))
    # the newest minute of a copy may have gone on after it was made
    verified(cluster, file, closed(refused[0], {**refused[1], "count": 4}))


def test_a_refusal_that_went_on_is_copied_again(tmp_path: Path) -> None:
    file = tmp_path / "copy"
    early = cluster_of([], refusal(0, 5))
    late = cluster_of([], {**refusal(0, 7), "first_at": refusal(0, 5)["first_at"]}, refusal(1, 1), refusal(2, 1))
    for cluster, counts in ((early, [5]), (early, [5]), (late, [5, 7, 1, 1]), (late, [5, 7, 1, 1])):
        Export(cluster, file, None).run(None)  # type: ignore[arg-type]
        assert [line["count"] for line in lines_of(file) if line["kind"] == "refused"] == counts
        verify_all(cluster, file)  # type: ignore[arg-type]
