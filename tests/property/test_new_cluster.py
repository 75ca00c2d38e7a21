"""Whatever state a backup has, another cluster can begin with it: sound at once, and when the old sessions end."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.core.apply import apply_entry
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, EndSession, OpenLeadership, encode
from raftsched.core.entry import encode_entry
from raftsched.core.rows import decode_meta, decode_session
from raftsched.core.rules.new_cluster import INDEX_AHEAD, TOKENS_AHEAD, bootstrap_from_backup
from raftsched.core.subjects.cluster import Member
from raftsched.core.tables import Table
from tests.property.author import Author
from tests.support.amounts import examples
from tests.support.invariants import violations

TERM = 5_000


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32))
def test_any_state_can_be_the_beginning_of_another_cluster(seed: int) -> None:
    note(f"seed {seed}")
    author = Author(seed)
    log = author.write(120)
    view = author.view
    before = decode_meta(view.get(Table.META, b"meta"))
    index = len(log) + INDEX_AHEAD
    member = Member("n2", "h:1", b"disk")
    bootstrap_from_backup(Tx(view), index, b"another", member, TOKENS_AHEAD, paused=False, now_ms=0)
    assert not violations(view)
    meta = decode_meta(view.get(Table.META, b"meta"))
    assert (meta.members, meta.cluster_id, meta.members_at) == ((member,), b"another", index)
    assert meta.last_token == before.last_token + TOKENS_AHEAD
    assert (meta.jobs, meta.last_id, meta.settings) == (before.jobs, before.last_id, before.settings)

    def done(*commands: object) -> None:
        nonlocal index
        index += 1
        batch = [(99, index, [encode(command) for command in commands])]  # type: ignore[arg-type]
        result = apply_entry(view, index, TERM, encode_entry(meta.now_ms, batch))
        answers = result.batches[0].answers
        assert answers is not None
        assert all(isinstance(answer, Accepted) for answer in answers), answers
        assert not violations(view)

    done(OpenLeadership(TERM, "n2"))
    for _, raw in list(view.scan(Table.SESSIONS)):
        session = decode_session(raw)
        if session.open:
            done(EndSession(session.id, TERM))
    assert not list(view.scan(Table.ASSIGNED))
