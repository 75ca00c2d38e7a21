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
from raftsched.core.tables import Table
from raftsched.worker.session.own_node import REPEAT_MS, OwnNode

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


def settle(self: OwnNode, token: int) -> None:
    """Nothing is forgotten."""
    self._worker.settled(token)


def repeat(self: OwnNode, now: int) -> None:
    late = self.reports.sent_before(now - REPEAT_MS)
    for report in late:
        report.sent_at = now
    self._submit([report.data for report in late])


attempts._live = live
OwnNode._settle = settle  # type: ignore[method-assign]
OwnNode._repeat = repeat  # type: ignore[method-assign]
main()
