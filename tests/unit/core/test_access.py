"""Tokens and the record of who asked for what, in apply."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import msgspec
import pytest

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.levels import AUDIT_BY_SUBJECT, level_of, newest_level
from raftsched.core.model import Job, JobState
from raftsched.core.rows import decode_access, decode_job, decode_oidc, decode_operation, decode_record, decode_token
from raftsched.core.rules.filters import JobFilter
from raftsched.core.subjects.access import (
    ACCESS_KEY,
    CHANGES_RING,
    JOBS_RING,
    OIDC_KEY,
    OIDC_MAX,
    SECRETS_RING,
    TOKENS_MAX,
    Grant,
    Oidc,
    Record,
    Role,
    Token,
    link,
    split_record,
)
from raftsched.core.subjects.calendar import PutCalendar
from raftsched.core.subjects.keyed import Idempotent
from raftsched.core.subjects.namespace import PutNamespace
from raftsched.core.subjects.operations import BulkAction, StepOperation
from raftsched.core.subjects.secret import PutSecret
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.core.tables import Table, u64
from tests.support.memory_view import World, every, policy

SECRET = b"s" * 32


def digest(number: int) -> bytes:
    return number.to_bytes(32, "big")


def with_grants(*grants: Grant) -> c.CreateToken:
    return c.CreateToken("x", Role.VIEWER, digest(1), None, None, grants)


def make(world: World, number: int, role: Role = Role.ADMIN, **more: object) -> int:
    made = world.ok(c.CreateToken(f"t{number}", role, digest(number), **more)).number  # type: ignore[arg-type]
    assert made is not None
    return made


def by(command: c.Command, name: str = "ana", operation: str = "x", **more: object) -> c.Attributed:
    return c.Attributed(msgspec.Raw(c.encode(command)), 7, name, operation, "/v1/x", "10.0.0.9", **more)  # type: ignore[arg-type]


def notes(world: World, ring: int | None = None) -> list[Record]:
    rows = world.view.scan(Table.AUDIT)
    return [decode_record(raw) for key, raw in rows if ring is None or split_record(key)[0] == ring]


class TestTokens:
    def test_is_kept_by_its_hash_and_knows_who_made_it(self) -> None:
        world = World()
        answer = world.ok(by(c.CreateToken("ci", Role.EDITOR, digest(1), ("b", "a", "b"))))
        raw = world.view.get(Table.TOKENS, digest(1))
        assert raw is not None
        token = decode_token(raw)
        assert (token.id, token.name, token.namespaces, token.created_by) == (answer.number, "ci", ("a", "b"), "ana")
        assert token.holds(world.now)

    def test_a_workers_is_for_queues(self) -> None:
        world = World()
        made = c.CreateWorkerToken("gpu", digest(1), ("b", "a", "b"), ("d",), rate_count=5, rate_period_ms=1_000)
        answer = world.ok(by(made))
        raw = world.view.get(Table.TOKENS, digest(1))
        assert raw is not None
        token = decode_token(raw)
        assert (token.id, token.role, token.queues, token.namespaces) == (
            answer.number,
            Role.WORKER,
            ("a", "b"),
            ("d",),
        )
        assert (token.rate_count, token.grants, token.created_by) == (5, (), "ana")
        assert world.refused(c.CreateWorkerToken("gpu", digest(2))) == "name-taken"
        assert notes(world)[-1].subject != ""

    def test_older_versions_stop_at_one(self) -> None:
        assert level_of([c.encode(by(c.CreateWorkerToken("gpu", digest(1))))]) == 2
        assert level_of([c.encode(by(c.CreateToken("x", Role.VIEWER, digest(1))))]) == 1

    def test_names_and_secrets_are_taken(self) -> None:
        world = World()
        make(world, 1)
        assert world.refused(c.CreateToken("t1", Role.VIEWER, digest(2))) == "name-taken"
        assert world.refused(c.CreateToken("t2", Role.VIEWER, digest(1))) == "not-possible"

    @pytest.mark.parametrize(
        "command",
        [
            c.CreateToken("", Role.VIEWER, digest(1)),
            c.CreateToken("x" * 65, Role.VIEWER, digest(1)),
            c.CreateToken("x", Role.VIEWER, b"short"),
            c.CreateToken("x", Role.VIEWER, digest(1), ()),
            c.CreateToken("x", Role.VIEWER, digest(1), ("x" * 65,)),
            c.CreateToken("x", Role.ADMIN, digest(1), ("a",)),
            c.CreateToken("x", Role.VIEWER, digest(1), None, -1),
            c.CreateToken("x", Role.WORKER, digest(1)),
            c.CreateWorkerToken("x", digest(1), ()),
            c.CreateWorkerToken("x", digest(1), ("x" * 129,)),
            c.CreateWorkerToken("x", digest(1), tuple(f"{n}" for n in range(101))),
            c.CreateWorkerToken("x", digest(1), None, ()),
            c.CreateWorkerToken("x", b"short"),
            with_grants(Grant("a", Role.WORKER)),
            with_grants(Grant("a", Role.VIEWER)),
            c.CreateToken("x", Role.EDITOR, digest(1), ("a",), None, (Grant("a", Role.VIEWER),)),
            with_grants(Grant("b", Role.ADMIN)),
            with_grants(Grant("", Role.EDITOR)),
            with_grants(Grant("x" * 65, Role.EDITOR)),
            with_grants(Grant("a", Role.EDITOR), Grant("a", Role.OPERATOR)),
            with_grants(*(Grant(f"{n}", Role.EDITOR) for n in range(101))),
        ],
    )
    def test_nothing_out_of_bounds_gets_in(self, command: c.CreateToken | c.CreateWorkerToken) -> None:
        assert World().refused(command) == "invalid-parameter"

    def test_ends_when_it_was_said_to(self) -> None:
        world = World()
        make(world, 1, expires_at_ms=world.now + 10)
        raw = world.view.get(Table.TOKENS, digest(1))
        assert raw is not None
        assert decode_token(raw).holds(world.now + 9)
        assert not decode_token(raw).holds(world.now + 10)

    def test_is_revoked_once(self) -> None:
        world = World()
        number = make(world, 1)
        world.ok(by(c.RevokeToken(number)))
        world.ok(by(c.RevokeToken(number), name="bo"))
        raw = world.view.get(Table.TOKENS, digest(1))
        assert raw is not None
        assert (decode_token(raw).revoked_by, decode_token(raw).holds(world.now)) == ("ana", False)
        assert world.refused(c.RevokeToken(5)) == "not-found"
        assert world.refused(c.RevokeToken(-1)) == "not-found"

    def test_the_oldest_that_holds_no_longer_makes_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftsched.core.apply.resources.access_edits.TOKENS_MAX", 3)
        world = World()
        made = [make(world, number) for number in range(3)]
        assert TOKENS_MAX > 3
        assert world.refused(c.CreateToken("more", Role.VIEWER, digest(9))) == "not-possible"
        world.ok(c.RevokeToken(made[1]))
        make(world, 9)
        assert world.view.get(Table.TOKEN_IDS, u64(made[1])) is None
        assert world.view.get(Table.TOKEN_IDS, u64(made[0])) is not None


class TestIssuer:
    def test_a_change_has_a_revision_of_its_own(self) -> None:
        world = World()
        assert world.ok(c.SetOidc(b"{1}")).number == 1
        assert world.ok(c.SetOidc(b"{1}")).number == 1
        assert world.refused(c.SetOidc(b"{2}", 0)) == "stale-revision"
        assert world.ok(c.SetOidc(b"", 1)).number == 2
        assert world.ok(c.SetOidc(b"{1}")).number == 3, "what was taken under revision 1 is not taken again"
        assert world.refused(c.SetOidc(b"x" * (OIDC_MAX + 1))) == "invalid-parameter"
        assert decode_oidc(world.view.get(Table.ACCESS, OIDC_KEY)) == Oidc(b"{1}", 3)


class TestNobodyIsLockedOut:
    def test_who_turns_it_on_has_a_way_back(self) -> None:
        world = World()
        assert world.refused(c.SetAccess(True, SECRET)) == "not-possible"
        make(world, 1, Role.OPERATOR)
        make(world, 2, expires_at_ms=world.now + 1)
        assert world.refused(c.SetAccess(True, SECRET)) == "not-possible"
        make(world, 3)
        assert world.refused(c.SetAccess(True, b"short")) == "invalid-parameter"
        world.ok(c.SetAccess(True, SECRET))
        access = decode_access(world.view.get(Table.ACCESS, b"access"))
        assert (access.required, access.secret) == (True, SECRET)
        world.ok(c.SetAccess(False))
        assert decode_access(world.view.get(Table.ACCESS, b"access")).secret == b""
        world.ok(c.SetAccess(True))  # of nodes that have a cluster key
        assert decode_access(world.view.get(Table.ACCESS, b"access")).required

    def test_what_lies_there_of_nodes_without_a_key_is_forgotten(self) -> None:
        world = World()
        make(world, 1)
        world.ok(c.SetAccess(True, SECRET))
        world.ok(c.SeedTokens(SECRET))
        world.ok(c.ForgetSecrets())
        access = decode_access(world.view.get(Table.ACCESS, b"access"))
        assert (access.required, access.secret, access.seed) == (True, b"", b"")

    def test_the_last_admin_stays(self) -> None:
        world = World()
        first, second = make(world, 1), make(world, 2)
        make(world, 3, expires_at_ms=world.now + 1)
        world.ok(c.SetAccess(True, SECRET))
        world.ok(c.RevokeToken(first))
        assert world.refused(c.RevokeToken(second)) == "not-possible"
        world.ok(c.SetAccess(False))
        world.ok(c.RevokeToken(second))


def row(world: World, number: int) -> Token:
    raw = world.view.get(Table.TOKENS, digest(number))
    assert raw is not None
    return decode_token(raw)


class TestBootstrap:
    """The first admin is made, tokens are turned on, and what was made before is revoked: by one entry."""

    def boot(self, number: int, name: str = "root", **more: object) -> c.SetAccess:
        return c.SetAccess(True, SECRET, name=name, digest=digest(number), **more)  # type: ignore[arg-type]

    def test_what_was_planted_is_revoked_in_the_same_entry(self) -> None:
        world = World()
        make(world, 1)
        make(world, 2, Role.VIEWER)
        world.ok(by(self.boot(9)))
        assert decode_access(world.view.get(Table.ACCESS, b"access")).required
        assert not row(world, 1).holds(world.now)
        assert not row(world, 2).holds(world.now)
        assert (row(world, 1).revoked_by, row(world, 1).revoked_at_ms) == ("ana", world.now)
        made = row(world, 9)
        assert (made.name, made.role, made.holds(world.now), made.created_by) == ("root", Role.ADMIN, True, "ana")

    def test_tokens_are_kept_when_that_is_said_or_when_they_were_needed_before(self) -> None:
        world = World()
        make(world, 1)
        world.ok(self.boot(8, keep=True))
        assert row(world, 1).holds(world.now)
        world.ok(self.boot(9, "root-2"))
        assert row(world, 1).holds(world.now), "nobody could plant it: who made it was an admin"
        assert row(world, 8).holds(world.now)

    def test_what_a_node_let_pass_that_had_not_heard_of_it_is_refused(self) -> None:
        world = World()
        planting = c.CreateToken("t", Role.ADMIN, digest(1))
        anonymous = c.Attributed(msgspec.Raw(c.encode(planting)), operation="tokens_create")
        world.ok(self.boot(9))
        assert world.refused(anonymous) == "unauthorized"
        world.ok(c.SetAccess(False))
        world.ok(anonymous)

    def test_sent_again_it_is_done_once(self) -> None:
        world = World()
        first = world.ok(self.boot(9)).number
        assert world.ok(self.boot(9)).number == first
        assert decode_access(world.view.get(Table.ACCESS, b"access")).tokens == 1

    def test_a_planted_token_cannot_hold_its_name(self) -> None:
        world = World()
        world.ok(c.CreateToken("root", Role.ADMIN, digest(1)))
        world.ok(self.boot(9))
        assert row(world, 9).name == "root"
        assert row(world, 1).name.startswith("root.")
        assert world.refused(self.boot(8)) == "name-taken"

    def test_so_many_were_planted_that_no_more_may_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("raftsched.core.apply.resources.access_edits.TOKENS_MAX", 3)
        world = World()
        for number in range(1, 4):
            make(world, number)
        assert world.refused(self.boot(9, keep=True)) == "not-possible"
        assert not decode_access(world.view.get(Table.ACCESS, b"access")).required
        world.ok(self.boot(9))
        assert row(world, 9).holds(world.now)

    @pytest.mark.parametrize(
        "wrong",
        [
            c.SetAccess(False, SECRET, name="root", digest=digest(9)),
            c.SetAccess(True, b"short", name="root", digest=digest(9)),
            c.SetAccess(True, SECRET, name="", digest=digest(9)),
            c.SetAccess(True, SECRET, name="root", digest=b"short"),
        ],
    )
    def test_what_is_refused_changes_nothing(self, wrong: c.SetAccess) -> None:
        world = World()
        make(world, 1)
        assert world.refused(wrong) == "invalid-parameter"
        assert row(world, 1).holds(world.now)

    def test_a_digest_that_is_somebody_elses_is_refused(self) -> None:
        world = World()
        make(world, 9)
        assert world.refused(self.boot(9)) == "not-possible"
        assert row(world, 9).holds(world.now)


class Stage(NamedTuple):
    """A world in which there is something to change, and nothing is noted."""

    world: World
    job: Job
    run: bytes  # at work
    token: int
    operation: int


def staged(level: int = newest_level()) -> Stage:
    world = World(level=level)
    token = make(world, 1)
    make(world, 2)
    job = world.create(every(1_000), name="report")
    run = world.run_now(world.create(name="started"))
    world.assign(run, world.session())
    operation = world.ok(c.StartOperation(BulkAction.PAUSE, JobFilter(namespace="none"))).operation
    assert operation is not None
    return Stage(world, job, run, token, operation.id)


# What changes something, and nothing when it comes again
ONCE: dict[str, Callable[[Stage], c.Command]] = {
    "edit a job": lambda stage: c.EditJob(stage.job.id, policy(every(2_000)), b"{}", None, "report"),
    "replace a job": lambda _: c.CreateJob(
        "default", "report", policy(every(4_000)), b"{}", suspended=True, replace=True
    ),
    "pause a job": lambda stage: c.SetJobState(stage.job.id, JobState.SUSPENDED),
    "expire a job": lambda stage: c.SetJobState(stage.job.id, JobState.EXPIRED, kill=True),
    "skip a time": lambda stage: c.SkipNext(stage.job.id, stage.job.nominal_at_ms or 0),
    "kill a run": lambda stage: c.Kill(stage.run),
    "cancel an operation": lambda stage: c.CancelOperation(stage.operation),
    "put a secret": lambda _: PutSecret("default", "s", b"x"),
    "put a queue": lambda _: c.PutQueue("q", max_running=3),
    "put a calendar": lambda _: PutCalendar("c", b'{"exclude":["2030-01-01"]}'),
    "put a namespace": lambda _: PutNamespace("n", b"{}", 3),
    "put a webhook": lambda _: PutWebhook("w", WebhookSpec(url="https://hooks.example/x"), secret=b"s" * 32),
    "put settings": lambda _: c.PutSettings(msgspec.structs.replace(Settings(), audit_max=5)),
    "pause the cluster": lambda _: c.PauseCluster(True),
    "drain a node": lambda _: c.PutNodeRule("n1", drained=True),
    "set an issuer": lambda _: c.SetOidc(b"{}"),
    "require tokens": lambda _: c.SetAccess(True, SECRET),
    "revoke a token": lambda stage: c.RevokeToken(stage.token),
}


class TestNotes:
    def test_what_was_done_is_noted_and_what_was_refused_is_not(self) -> None:
        world = World()
        world.ok(by(c.PauseCluster(True), namespace="n"))
        assert isinstance(world.do(by(c.DeleteJob(5))), c.Rejected)
        (note,) = notes(world)
        assert (note.name, note.actor, note.operation, note.resource, note.remote, note.namespace, note.count) == (
            "ana", 7, "x", "/v1/x", "10.0.0.9", "n", 1,
        )  # fmt: skip
        assert note.at_ms == world.now

    def test_says_which_job(self) -> None:
        world = World()
        job = world.create(every(1_000), name="report")
        world.ok(by(c.SetJobState(job.id, JobState.SUSPENDED)))
        (note,) = notes(world)
        assert (note.namespace, note.job) == ("default", "report")
        assert note.subject

    def test_a_burst_of_work_is_one_row(self) -> None:
        world = World()
        creates = [c.CreateJob("d", f"j{i}", policy(every(1_000)), b"{}") for i in range(20)]
        world.run(*[by(create, operation="jobs_create", work=True) for create in creates])
        (note,) = notes(world, 1)
        assert (note.count, note.job) == (20, "j0")
        world.run(*[by(create, operation="jobs_create", work=True) for create in creates])
        assert len(notes(world)) == 1, "jobs that were there already are no work"

    def test_work_does_not_push_out_changes(self) -> None:
        world = World()
        world.ok(c.PutSettings(msgspec.structs.replace(Settings(), audit_max=3)))
        world.ok(by(c.PauseCluster(True)))
        for number in range(20):
            world.ok(by(c.CreateJob("d", f"j{number}", policy(every(1_000)), b"{}"), work=True))
        assert [note.job for note in notes(world, 1)] == ["j17", "j18", "j19"]
        assert len(notes(world, 0)) == 1

    def test_old_ones_go(self) -> None:
        world = World()
        world.ok(c.PutSettings(msgspec.structs.replace(Settings(), audit_keep_ms=1_000)))
        world.ok(by(c.PauseCluster(True)))
        world.forward(1_001)
        world.ok(by(c.PauseCluster(False)))
        assert [note.at_ms for note in notes(world)] == [world.now]

    def test_none_are_taken_when_none_are_wanted(self) -> None:
        world = World()
        world.ok(by(c.PauseCluster(True)))
        world.ok(c.PutSettings(msgspec.structs.replace(Settings(), audit_max=0)))
        world.ok(by(c.PauseCluster(False)))
        assert len(notes(world)) == 1, "what an entry notes stays until the next one"

    def test_who_lowers_the_bounds_is_in_it(self) -> None:
        world = World()
        for number in range(5):
            world.ok(by(c.PauseCluster(bool(number % 2))))
        less = msgspec.structs.replace(Settings(), audit_max=1)
        world.ok(by(c.PutSettings(less, Settings()), operation="settings_patch"))
        last = notes(world)[-1]
        assert last.operation == "settings_patch"
        assert last.change == b'{"audit_max":{"from":100000,"to":1}}'
        world.ok(by(c.PauseCluster(True)))
        assert len(notes(world)) == 1

    def test_each_has_the_hash_of_the_one_before_it_in_its_own(self) -> None:
        world = World()
        world.ok(c.PutSettings(msgspec.structs.replace(Settings(), audit_max=3)))
        for number in range(9):
            world.ok(by(c.PauseCluster(bool(number % 2)), name=f"ü{number}", change=b'{"a":"\xc3\xbc\\n"}'))
        access = decode_access(world.view.get(Table.ACCESS, ACCESS_KEY))
        before = access.bases[0]
        for key, raw in world.view.scan(Table.AUDIT, b"\0", b"\1"):
            note = decode_record(raw)
            ring, index, position = split_record(key)
            assert note.hash == link(before, ring, index, position, msgspec.structs.replace(note, hash=b""))
            before = note.hash
        assert before == access.heads[0] != b""
        assert access.bases[0] != b""

    def test_what_editors_do_pushes_out_nothing_that_admins_and_operators_did(self) -> None:
        world = World()
        world.ok(c.PutSettings(msgspec.structs.replace(Settings(), audit_max=3)))
        world.ok(by(c.CreateToken("ci", Role.EDITOR, digest(1)), operation="tokens_create"))
        job = world.create(every(1_000), name="report")
        for number in range(9):
            world.ok(by(c.EditJob(job.id, policy(every(2_000 + number)), b"{}", None, "report")))
            world.ok(by(PutSecret("default", "s", b"%d" % number)))
        world.ok(by(c.PauseCluster(True)))
        assert [note.operation for note in notes(world, CHANGES_RING)] == ["tokens_create", "x"]
        assert [note.job for note in notes(world, JOBS_RING)] == ["report"] * 3
        assert len(notes(world, SECRETS_RING)) == 3
        access = decode_access(world.view.get(Table.ACCESS, ACCESS_KEY))
        assert access.notes == [2, 0, 3, 3]
        for ring, head in enumerate(access.heads):
            before = access.bases[ring]
            for key, raw in world.view.scan(Table.AUDIT, bytes((ring,)), bytes((ring + 1,))):
                note, (_, index, position) = decode_record(raw), split_record(key)
                assert note.hash == link(before, ring, index, position, msgspec.structs.replace(note, hash=b""))
                before = note.hash
            assert before == head

    @pytest.mark.parametrize("what", ONCE)
    def test_what_changes_nothing_is_not_noted(self, what: str) -> None:
        stage = staged()
        world, command = stage.world, ONCE[what](stage)
        assert not world.ok(by(command)).unchanged
        before = notes(world)
        assert len(before) == 1
        key = sha256(what.encode()).digest()
        for again in (command, Idempotent(key, key, c.encode(command))):
            assert world.ok(by(again)).unchanged
            assert notes(world) == before

    @pytest.mark.parametrize("what", ONCE)
    def test_a_cluster_of_an_earlier_level_notes_it_among_the_changes(self, what: str) -> None:
        stage = staged(AUDIT_BY_SUBJECT - 1)
        world, command = stage.world, ONCE[what](stage)
        world.ok(by(command))
        world.ok(by(command))
        assert [split_record(key)[0] for key, _ in world.view.scan(Table.AUDIT)] == [CHANGES_RING] * 2
        access = decode_access(world.view.get(Table.ACCESS, ACCESS_KEY))
        assert (access.notes, len(access.heads), len(access.bases)) == ([2, 0], 2, 2), "as other versions write it"

    def test_its_chains_go_on_when_the_level_is_raised(self) -> None:
        world = World(level=AUDIT_BY_SUBJECT - 1)
        job = world.create(every(1_000), name="report")
        edits = [by(c.EditJob(job.id, policy(every(n)), b"{}", None, "report")) for n in (2_000, 3_000)]
        world.ok(edits[0])
        head = decode_access(world.view.get(Table.ACCESS, ACCESS_KEY)).heads[CHANGES_RING]
        world.ok(c.RaiseLevel(newest_level()))
        world.ok(edits[1])
        world.ok(by(c.PauseCluster(True)))
        changes = notes(world, CHANGES_RING)
        assert [(note.job, note.hash == head) for note in changes] == [("report", True), ("", False)]
        assert [note.job for note in notes(world, JOBS_RING)] == ["report"]
        assert world.in_one_batch() == world.view.dump()

    def test_a_caller_asks_for_one_thing(self) -> None:
        twice = c.encode(by(by(c.Barrier())))
        with pytest.raises(msgspec.DecodeError):
            c.decode(twice)
        with pytest.raises(msgspec.DecodeError):
            c.decode(c.encode(c.Attributed(msgspec.Raw(b"\x91\xcd\xff\xff"))))


def test_a_revision_knows_whose_it_is() -> None:
    world = World()
    number = world.ok(by(c.CreateJob("d", "j", policy(every(1_000)), b"{}"), name="ana")).job
    assert number is not None
    world.ok(by(c.EditJob(number.id, policy(every(2_000)), b"{}", None, "j"), name="bo"))
    raw = world.view.get(Table.JOBS, u64(number.id))
    assert raw is not None
    assert decode_job(raw).by == "bo"
    world.ok(c.EditJob(number.id, policy(every(3_000)), b"{}", None, "j"))
    raw = world.view.get(Table.JOBS, u64(number.id))
    assert raw is not None
    assert decode_job(raw).by == "", "nobody knows who the last one was"


def test_an_operation_stays_within_its_namespaces() -> None:
    world = World()
    mine = world.ok(c.CreateJob("mine", "a", policy(every(1_000)), b"{}")).job
    theirs = world.ok(c.CreateJob("theirs", "a", policy(every(1_000)), b"{}")).job
    assert mine is not None
    assert theirs is not None
    for command in (
        c.StartOperation(BulkAction.PAUSE, None, (mine.id, theirs.id), namespaces=("mine",)),
        c.StartOperation(BulkAction.DELETE, JobFilter(), namespaces=("mine",)),
    ):
        started = world.ok(command).operation
        assert started is not None
        world.ok(StepOperation(started.id, 0, 10, 10))
        raw = world.view.get(Table.OPERATIONS, u64(started.id))
        assert raw is not None
        row = decode_operation(raw)
        assert (row.changed, row.refused, [r.code for r in row.refusals]) == (1, 1, ["not-found"])
    raw = world.view.get(Table.JOBS, u64(theirs.id))
    assert raw is not None
    assert decode_job(raw).state is JobState.SCHEDULED
