"""Defines how secrets look that a cluster makes itself, and notes addresses without them."""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
# Tokens (rs_), the local one (rl_), of workers' sessions (rsw_), identities that open backups (rsi_), of webhooks
MADE = r"\b(rl_|rs[a-z]?_|whsec_)[A-Za-z0-9_+/=-]{16,}"
# A worker's session in an address or a text, with its secret as clusters below level 6 make it. (The ids of a trace
# look alike, and go on.)
SESSION = r"(?<![\w-])([0-9]{1,18})-[0-9a-f]{32}(?![\w-])"

_HIDING = (
    (re.compile(r"(worker-sessions/+[0-9]{0,18})[^/]*"), r"\1"),
    (re.compile(SESSION), r"\1"),
    (re.compile(MADE), rf"\1{HIDDEN}"),
)


def path_without_secrets(path: str) -> str:
    """Returns the path of a request as logs, the audit and traces have it: of a worker's session only the number,
    however the path is spelled, and wherever it leads."""
    decoded = shown = unquote(path)
    for secret, instead in _HIDING:
        shown = secret.sub(instead, shown)
    return path if shown == decoded else shown
