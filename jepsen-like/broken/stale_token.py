"""A build that takes a report for whatever attempt of its instance is live, however old its token is. The harness has
to see that runs are over for the cluster which are not, or the other way round."""

from typing import Any

from raftsched.cli.main import main
from raftsched.core.apply import attempts
from raftsched.core.apply.tx import Tx, decode_instance
from raftsched.core.tables import Table

real = attempts._live


def live(tx: Tx, session: int, token: int) -> Any:
    found = real(tx, session, token)
    if found is not None:
        return found
    for _, raw in tx.view.scan(Table.INSTANCES):
        row = decode_instance(raw)
        if row.live is not None and any(attempt.token == token for attempt in row.attempts):
            return row, row.live
    return None


attempts._live = live
main()
