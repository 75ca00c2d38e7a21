"""The rule for each kind of name: what may be asked for from now on, and how that is said.

Names become parts of addresses, where clients drop "." and ".." (RFC 3986, section 5.2.4): none may be either of them.

Commands in a log are not held against these rules. Apply refuses only what cannot be a key of a table (core/limits and
the modules of each subject), so a rule that becomes stricter changes what is accepted from now on, and not what a log
means.

This imports next to nothing: whoever registers a handler pays for no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property


class NameRule:
    """The rule for one kind of name.

    `kind`: a name of this kind, with its article. `example`: a good one. `rule`: what the rule asks for, to follow
    "use" or "it has". `regex`: the same, without anchors, and without lookahead, which not every reader of OpenAPI
    knows."""

    def __init__(self, kind: str, example: str, regex: str, rule: str) -> None:
        self.kind, self.example, self.regex, self.rule = kind, example, regex, rule

    @cached_property
    def allows(self) -> Callable[[str], re.Match[str] | None]:
        """Returns the match of a name that the rule allows; None: it forbids it. Compiled when first used."""
        return re.compile(self.regex, re.ASCII).fullmatch

    @property
    def pattern(self) -> str:
        """The regular expression with its anchors, for OpenAPI (ECMA-262)."""
        return f"^{self.regex}$"


def _path_segment(kind: str, example: str, longest: int, chars: str = "a-z0-9", words: str = "of a-z, 0-9") -> NameRule:
    plain, free = f"[{chars}_-]", f"[{chars}._-]"
    regex = rf"({plain}{free}{{0,{longest - 1}}}|\.{plain}{free}{{0,{longest - 2}}}|\.\.{free}{{1,{longest - 2}}})"
    allowed = f"characters {words}" if words.startswith("of") else words
    rule = f"1 to {longest} {allowed}, '.', '_' and '-', but not '.' or '..' alone"
    return NameRule(kind, example, regex, rule)


JOB = _path_segment("a job name", "nightly-report", 128)
NAMESPACE = _path_segment("a namespace", "billing", 64)
QUEUE = _path_segment("a queue", "reports", 128)
CALENDAR = _path_segment("a calendar", "holidays", 128)
WEBHOOK = _path_segment("a webhook", "ops", 64)
SECRET = _path_segment("a secret", "smtp", 128)
TRIGGER = _path_segment("a trigger's id", "nightly", 64)
NODE = _path_segment("a node id", "n4", 64)
WORKER = _path_segment("a worker", "gpu-1", 128)
HANDLER = _path_segment("a handler", "send-invoice", 128)
CONTEXT = _path_segment("a context", "staging", 64, "A-Za-z0-9", "letters, digits")
LABEL = _path_segment("a label", "zone", 64, "A-Za-z0-9/", "letters, digits, '/'")  # of a node, in its configuration
HOST = _path_segment("a host name", "n1.example.com", 253, "A-Za-z0-9", "letters, digits")
TOKEN = NameRule(
    "a token",
    "web-ci",
    "[a-z0-9_-][a-z0-9._-]{0,63}",
    "1 to 64 characters of a-z, 0-9, '.', '_' and '-', not beginning with '.'",
)
USER = NameRule(  # useradd(8), and capitals, which directories have
    "a user",
    "nobody",
    "[A-Za-z_][A-Za-z0-9_.-]{0,31}",
    "1 to 32 letters, digits, '_', '.' and '-', not beginning with a digit, '.' or '-'",
)
STORE = NameRule("a disk", "0123456789abcdef0123456789abcdef", "[0-9a-fA-F]{32}", "32 hexadecimal digits")
JOB_OF_NAMESPACE = NameRule(
    "a job", "billing/import", f"{NAMESPACE.regex}/{JOB.regex}", "a namespace, a slash, and the name of a job"
)
JOB_REFERENCE = NameRule(
    "a job", "billing/import", f"({NAMESPACE.regex}/)?{JOB.regex}", "its name, after its namespace and a slash"
)
SECRET_REFERENCE = NameRule(
    "a secret", "billing/smtp", f"({NAMESPACE.regex}/)?{SECRET.regex}", "its name, after its namespace and a slash"
)
