"""Hides what looks like a secret: in texts, and in values that become JSON.

Values are looked at before they are encoded. JSON escapes quotes and ends of lines, so that afterwards nobody can tell
where a secret ends. Where it is not sure what belongs to a secret, too much is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Any

from raftsched.security.shown import HIDDEN, MADE, SESSION

_NAMED = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|(?:api|private|access|secret|account|shared)[_-]?key"
    r"|[_-]key|x-auth)"
)
_SECRET_NAME = re.compile(rf"(?i)[\w.-]*?{_NAMED}")
_SECRET_FLAG = re.compile(rf"(?i)--?[a-z-]{{0,20}}?{_NAMED}")  # an argument whose value is the next one
_FILES = frozenset(("tls_key", "raft_key"))  # settings of a node that name files
_64 = r"A-Za-z0-9+/_-"  # what base64 is written with
_RANDOM = rf"(?=[{_64}]*[a-z])(?=[{_64}]*[A-Z])(?=[{_64}]*[0-9])"  # letters of both cases, and digits
_PEM = r"-----{} [A-Z ]*PRIVATE KEY-----"
# What repeats is bounded where else a long text of the same characters would be looked at again from each of them.
_SECRETS = tuple(
    (re.compile(pattern), shown)
    for pattern, shown in (
        # keys, whole or without their end or their beginning
        (rf"{_PEM.format('BEGIN')}[\s\S]*?(?:{_PEM.format('END')}|\Z)", HIDDEN),
        (rf"(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/=]{{8,}}(?:\s|\\+[nr])+){{0,80}}{_PEM.format('END')}", HIDDEN),
        # what the cluster makes; tokens of known services
        (MADE, rf"\1{HIDDEN}"),
        (SESSION, rf"\1-{HIDDEN}"),
        (r"\b(glpat-|gh[opsur]_|github_pat_|xox[a-z]-|AKIA|ASIA)[A-Za-z0-9_-]{10,}", rf"\1{HIDDEN}"),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", HIDDEN),  # tokens of an issuer (RFC 7519)
        (r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*[\"']?\s*[:=]\s*)(?!\*\*\*).+", rf"\1\2{HIDDEN}"),
        (r"(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}", rf"\1 {HIDDEN}"),
        (r"://[^\s\"<>]{1,512}@", f"://{HIDDEN}@"),  # user and password of an address; a password may have an @ in it
        (r"\b([\w.-]{1,64}):[^\s:@/\"]{3,256}@(?=[\w\[])", rf"\1:{HIDDEN}@"),
        (r"(://[^\s\"?]{1,512})\?[^\s\"]+", rf"\1?{HIDDEN}"),  # queries of addresses often have a key in them
        # what is named so: in quotes, behind a backslash or not, to the next such quote or the end; else one word
        (
            rf"(?i)({_NAMED})(\\*[\"']?\s*(?:=>|[=:])\s*)"
            r"(?:\"(?:\\.|[^\"\\\n])*(?:\"|(?=\n)|\Z)|'[^'\n]*'?|(\\+[\"']).*?(?:(?<!\\)\3|(?=\n)|\Z)|[^\s\"',}\]]\S*)",
            rf"\1\2{HIDDEN}",
        ),
        (
            r"(?i)(--[a-z-]{0,20}(?:password|passwd|passphrase|secret|token|(?:api|private|access|secret)-?key))"
            r"( +)(?:\"[^\"\n]*\"?|'[^'\n]*'?|[^\s,;.]\S*)",
            rf"\1\2{HIDDEN}",
        ),
        # keys: as hex, where ids and hashes that are shown are shorter; as base64, which paths are not to look like
        (r"\b[0-9a-fA-F]{48,}\b", HIDDEN),
        (rf"(?<![\w+/=.-])(?!/){_RANDOM}[{_64}]{{40,}}={{0,2}}(?![\w=])", HIDDEN),
        (rf"(?<![\w+/=-]){_RANDOM}[{_64}]{{20,}}={{1,2}}(?![\w\"'=])", HIDDEN),
    )
)


def without_secrets(text: str) -> str:
    """Returns the text with what looks like a secret hidden."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def hidden_in(value: Any) -> Any:
    """Returns the value, which is to become JSON, with what looks like a secret hidden: in all texts of it, and where
    the name of a field says so."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {without_secrets(str(name)): _of_field(str(name), inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [
            HIDDEN if _is_flag_of_secret(before, inner) else hidden_in(inner)
            for before, inner in pairwise((None, *value))
        ]
    return value


def _is_flag_of_secret(before: Any, value: Any) -> bool:
    """Returns True for what follows an argument such as --password in a list of arguments."""
    return isinstance(before, str) and isinstance(value, str) and _SECRET_FLAG.fullmatch(before) is not None


def _of_field(name: str, value: Any) -> Any:
    if name not in _FILES and _SECRET_NAME.fullmatch(name):
        if isinstance(value, str) and value:
            return HIDDEN
        if isinstance(value, list | tuple):
            return [HIDDEN if isinstance(inner, str) and inner else hidden_in(inner) for inner in value]
    return hidden_in(value)


def lines_without_secrets(lines: Iterable[str]) -> str:
    """Returns the lines of a log as a text. Such as are objects of JSON stay so."""
    found = []
    for is_object, group in groupby(((_object(line), line) for line in lines), lambda one: one[0] is not None):
        if is_object:
            found += [json.dumps(hidden_in(value), ensure_ascii=False) for value, _ in group]
        else:
            found.append(without_secrets("\n".join(line for _, line in group)))
    return "\n".join(found) + "\n"


def _object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
