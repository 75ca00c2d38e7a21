"""A build that takes a report for whatever attempt of its instance is live, however old its token is. The harness has
to see that runs are over for the cluster which are not, or the other way round.

Workers forget a report when they learn that its attempt is over, so that old tokens are rarely sent at all. Here they
go on repeating all of them, which does no harm where tokens are looked at.
"""

from typing import Any

from raftsched.cli.main import main
from raftsched.core.apply.runs import attempts
from raftsched.core.apply.tx import Tx
from raftsched.core.rows import decode_instance
from raftsched.core.tables import ReadView, Table
from raftsched.worker.session.reports import REPEAT_MS, Reports

real = attempts._live


def live(tx: Tx, session: int, token: int) -> Any:
    found = real(tx, session, token)
    if found is not None:
        return found
    for key, raw in tx.view.scan(Table.INSTANCES):
        row = decode_instance(raw)
        if row.live is not None and any(attempt.token == token for attempt in row.attempts):
            return key, row, row.live
    return None


def shown(self: Reports, token: int) -> None:
    """Nothing is forgotten."""


def take_repeated(self: Reports, view: ReadView, now: int) -> list[bytes]:
    self._checked_at = now
    late = [t for t, r in self._pending.items() if r.proposed_at is not None and now - r.proposed_at >= REPEAT_MS]
    return self._take(late, now)


attempts._live = live
Reports.shown = shown  # type: ignore[method-assign]
Reports.take_repeated = take_repeated  # type: ignore[method-assign]
main()
